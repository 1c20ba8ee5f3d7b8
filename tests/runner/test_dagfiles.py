"""Which files of a directory are DAG files, and which of them have changed."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest

from holdfast.runner.dagfiles import DagDirectory

TEXT = "# holdfast DAG\n"


@pytest.fixture
def dags(tmp_path: Path) -> Path:
    path = tmp_path / "dags"
    path.mkdir()
    return path


def test_files_below_a_linked_directory_are_known_by_their_path_inside(
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


def test_a_file_is_known_by_its_path_without_links_where_it_has_one(dags: Path) -> None:
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
