"""Discovery of DAG files in a directory, and of changes to them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from holdfast.runner.scheduler.dag_files import DagDirectory

TEXT = "# holdfast DAG\n"


@pytest.fixture
def dags(tmp_path: Path) -> Path:
    path = tmp_path / "dags"
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("from holdfast.sdk import DAG\n", True),
        ("from holdfast.sdk import dag as pipeline\n@pipeline\n", True),
        ("from holdfast import sdk\n@sdk.asset(schedule=None)\n", True),
        ("from holdfast.sdk import Asset\norders = Asset('orders')\n", False),
        ("from another.sdk import DAG\n", False),
    ],
)
def test_a_dag_file_mentions_holdfast_and_a_dag_or_an_asset_function(
    dags: Path, text: str, is_one: bool
) -> None:
    (dags / "a.py").write_text(text)

    assert (DagDirectory(dags).changes().changed != []) == is_one


def test_files_below_a_linked_directory_have_their_path_within_it(
    tmp_path: Path, dags: Path
) -> None:
    (tmp_path / "r1/sub").mkdir(parents=True)
    (tmp_path / "r1/sub/a.py").write_text(TEXT)
    (tmp_path / "r2").mkdir()
    (tmp_path / "r2/b.py").write_text(TEXT)
    (dags / "team").symlink_to(tmp_path / "r1")
    directory = DagDirectory(dags)

    first = directory.changes()
    (dags / "team").unlink()
    (dags / "team").symlink_to(tmp_path / "r2")
    second = directory.changes()

    assert first == ([str(dags / "team/sub/a.py")], [])
    assert second == ([str(dags / "team/b.py")], [str(dags / "team/sub/a.py")])
    assert directory.name(str(dags / "team/b.py")) == "team/b.py"


def test_a_link_may_lead_to_a_hidden_directory(dags: Path) -> None:
    (dags / ".worktrees/42").mkdir(parents=True)
    (dags / ".worktrees/42/a.py").write_text(TEXT)
    (dags / "repo").symlink_to(".worktrees/42")

    assert DagDirectory(dags).changes().changed == [str(dags / "repo/a.py")]


def test_a_file_is_identified_by_its_path_without_links(dags: Path) -> None:
    (dags / "team/sub").mkdir(parents=True)
    (dags / "team/sub/a.py").write_text(TEXT)
    (dags / "alias").symlink_to("team")
    (dags / "another").symlink_to("team/sub")

    assert DagDirectory(dags).changes().changed == [str(dags / "team/sub/a.py")]


def test_loops_of_links_end(tmp_path: Path, dags: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/a.py").write_text(TEXT)
    (tmp_path / "elsewhere/back").symlink_to(dags)
    (tmp_path / "elsewhere/here").symlink_to(".")
    (dags / "team").symlink_to(tmp_path / "elsewhere")
    (dags / "itself").symlink_to("itself")
    (dags / "itself.py").symlink_to("itself.py")

    assert DagDirectory(dags).changes().changed == [str(dags / "team/a.py")]


def test_only_regular_files_are_opened(dags: Path) -> None:
    fifo = dags / "fifo.py"
    os.mkfifo(fifo)
    writer = Thread(target=fifo.write_text, args=[TEXT], daemon=True)
    writer.start()
    (dags / "directory.py").mkdir()
    (dags / "a.py").write_text(TEXT)

    assert DagDirectory(dags).changes().changed == [str(dags / "a.py")]
    assert fifo.read_text() == TEXT
    writer.join()


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return a set of names of files that cannot be read for now."""
    names: set[str] = set()
    read = Path.read_text

    def read_text(path: Path, **options: Any) -> str:
        if path.name in names:
            raise OSError(errno.EMFILE, "Too many open files")
        return read(path, **options)

    monkeypatch.setattr(Path, "read_text", read_text)
    return names


def test_a_temporarily_unreadable_file_is_not_removed(dags: Path, unreadable: set[str]) -> None:
    a, b = dags / "a.py", dags / "b.py"
    a.write_text(TEXT)
    b.write_text(TEXT)
    directory = DagDirectory(dags)
    directory.changes()

    a.write_text(TEXT + "# changed\n")
    unreadable.add("a.py")
    meanwhile = directory.changes()
    still = directory.changes()
    unreadable.clear()

    assert meanwhile == ([str(a)], [])
    assert still == ([], [])
    assert directory.changes() == ([str(a)], [])
    assert directory.changes() == ([], [])


def test_an_unchanged_file_is_not_read_again(dags: Path, unreadable: set[str]) -> None:
    (dags / "a.py").write_text(TEXT)
    directory = DagDirectory(dags)
    directory.changes()

    unreadable.add("a.py")
    (dags / "b.py").write_text(TEXT)

    assert directory.changes() == ([str(dags / "b.py")], [])
    assert directory.has(str(dags / "a.py"))


def test_a_temporarily_unreadable_module_changes_all_dag_files(
    dags: Path, unreadable: set[str]
) -> None:
    (dags / "a.py").write_text(TEXT)
    module = dags / "shared.py"
    module.write_text("LIMIT = 1\n")
    directory = DagDirectory(dags)
    directory.changes()

    module.write_text("LIMIT = 22\n")
    unreadable.add("shared.py")
    directory.changes()
    unreadable.clear()

    assert directory.changes() == ([str(dags / "a.py")], [str(module)])


def test_a_file_whose_status_is_temporarily_unavailable_is_not_removed(
    dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dags / "a.py").write_text(TEXT)
    directory = DagDirectory(dags)
    directory.changes()
    status = os.stat

    def stale(path: str, **options: Any) -> os.stat_result:
        if path.endswith("a.py"):
            raise OSError(errno.ESTALE, "Stale file handle")
        return status(path, **options)

    with monkeypatch.context() as moment:
        moment.setattr(os, "stat", stale)
        meanwhile = directory.changes()

    assert meanwhile == directory.changes() == ([], [])
