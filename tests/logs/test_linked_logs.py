"""Links, pipes and directories that another user puts among logs."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.actions.log_retention import delete_local_logs, delete_old_logs
from holdfast.errors import BackendFailed
from holdfast.logs.files import LogFile, LogWriter
from holdfast.logs.log import PiecedLog
from holdfast.logs.storage import LogStorage
from holdfast.stores.sql import SqlStore

KEY = "etl/r1/load/1.log"
PIECE = f"{KEY}/{0:020}"


def link_file(at: Path, target: Path) -> None:
    at.parent.mkdir(parents=True)
    at.symlink_to(target / "file")


def link_directory(at: Path, target: Path) -> None:
    at.parents[1].mkdir(parents=True)
    at.parent.symlink_to(target)
    (target / at.name).write_text("precious\n")


def link_run(at: Path, target: Path) -> None:
    at.parents[3].mkdir(parents=True)
    at.parents[2].symlink_to(target)
    (target / at.parts[-3] / at.parts[-2]).mkdir(parents=True)
    (target / at.parts[-3] / at.parts[-2] / at.name).write_text("precious\n")


def make_pipe(at: Path, target: Path) -> None:
    at.parent.mkdir(parents=True)
    os.mkfifo(at)


def make_socket(at: Path, target: Path) -> None:
    at.parent.mkdir(parents=True)
    os.chdir(at.parent)  # the name of a socket is short
    socket.socket(socket.AF_UNIX).bind(at.name)


def make_directory(at: Path, target: Path) -> None:
    at.mkdir(parents=True)


MAKERS = [link_file, link_directory, link_run, make_pipe, make_socket, make_directory]


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """Return a directory that the other user can read, or not even that."""
    directory = tmp_path / "precious"
    directory.mkdir()
    (directory / "file").write_text("precious\n")
    return directory


@pytest.fixture(autouse=True)
def keep_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


@pytest.fixture(params=["storage", "home"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, PiecedLog]:
    """Return the path of the first piece of a log, and the log."""
    root = tmp_path / "root"
    if request.param == "storage":
        return root / PIECE, LogStorage(f"file://{root}").log(KEY)
    return root / KEY, LogFile(root / KEY, root)


@pytest.mark.parametrize("make", MAKERS)
def test_only_a_regular_file_below_the_root_is_read(
    opened: tuple[Path, PiecedLog], precious: Path, make: Callable[[Path, Path], None]
) -> None:
    path, log = opened
    make(path, precious)

    assert not log.exists()
    assert log.read(0) == (b"", 0)
    assert log.tail(10) == 0


def test_a_file_that_becomes_a_link_after_it_was_listed_is_not_read(
    opened: tuple[Path, PiecedLog], precious: Path
) -> None:
    path, log = opened
    path.parent.mkdir(parents=True)
    path.write_text("mine\n")
    listed = log.exists()
    path.unlink()
    path.symlink_to(precious / "file")

    assert listed
    assert log.read(0) == (b"", 0)


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").symlink_to("disk")
    storage = LogStorage(f"file://{tmp_path}/root")
    storage.put(KEY, 0, b"one\n")

    assert storage.log(KEY).read(0) == (b"one\n", 4)
    storage.delete("etl")
    assert list((tmp_path / "disk").iterdir()) == []


@pytest.mark.parametrize("folder", ["etl", "etl/r1"])
@pytest.mark.parametrize("link", ["etl", "etl/r1", "etl/r1/linked", "etl/r1/load/2.log"])
def test_a_deletion_does_not_follow_links(
    tmp_path: Path, precious: Path, folder: str, link: str
) -> None:
    (precious / "r1").mkdir()
    (precious / "r1" / "file").write_text("precious\n")
    storage = LogStorage(f"file://{tmp_path}/root")
    at = tmp_path / "root" / link
    at.parent.mkdir(parents=True)
    at.symlink_to(precious)

    storage.delete(folder)
    storage.drop(link, [0])

    assert files(precious) == ["file", "file"]
    assert not os.path.lexists(at) or (folder, link) == ("etl/r1", "etl")


@pytest.mark.parametrize("link", ["etl", "etl/r1", "etl/r1/linked"])
def test_a_deletion_on_this_machine_does_not_follow_links(
    tmp_path: Path, precious: Path, link: str
) -> None:
    (precious / "r1").mkdir()
    (precious / "r1" / "file").write_text("precious\n")
    at = tmp_path / "logs" / link
    at.parent.mkdir(parents=True)
    at.symlink_to(precious)

    delete_local_logs(tmp_path, "etl", "r1")
    delete_local_logs(tmp_path, "etl")

    assert files(precious) == ["file", "file"]


def test_a_deletion_by_age_does_not_follow_a_directory_that_becomes_a_link(
    tmp_path: Path, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(precious / "file", (0, 0))
    folder = tmp_path / "logs" / "etl"
    folder.mkdir(parents=True)
    (folder / "kept").touch()
    scan = os.scandir

    def replace_then_scan(path: Any) -> Any:
        if path == str(folder) or path == folder:
            folder.rename(tmp_path / "moved")
            folder.symlink_to(precious)
        return scan(path)

    with SqlStore(f"sqlite:///{tmp_path}/store.db") as store:
        monkeypatch.setattr(os, "scandir", replace_then_scan)
        delete_old_logs(store, tmp_path, timedelta(days=1))

    assert files(precious) == ["file"]


def test_logs_are_deleted_by_age_where_their_directory_is_a_link(tmp_path: Path) -> None:
    old = tmp_path / "disk" / KEY
    old.parent.mkdir(parents=True)
    old.touch()
    os.utime(old, (0, 0))
    (tmp_path / "logs").symlink_to("disk")

    with SqlStore(f"sqlite:///{tmp_path}/store.db") as store:
        assert delete_old_logs(store, tmp_path, timedelta(days=1)) == 1

    assert os.listdir(tmp_path / "disk") == []


def test_nothing_is_written_through_a_link(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "etl").symlink_to(precious)
    storage = LogStorage(f"file://{tmp_path}/root")

    with pytest.raises(BackendFailed):
        storage.put(KEY, 0, b"one\n")

    assert files(precious) == ["file"]


def test_a_piece_that_is_a_link_is_replaced_by_the_next_write(
    tmp_path: Path, precious: Path
) -> None:
    link_file(tmp_path / "root" / PIECE, precious)
    storage = LogStorage(f"file://{tmp_path}/root")

    storage.put(KEY, 0, b"one\n")

    assert storage.log(KEY).read(0) == (b"one\n", 4)
    assert (precious / "file").read_text() == "precious\n"


def test_a_deletion_leaves_other_logs_and_no_empty_directories(tmp_path: Path) -> None:
    storage = LogStorage(f"file://{tmp_path}/root")
    storage.put(KEY, 0, b"one\n")
    storage.put("etl/r2/load/1.log", 0, b"two\n")

    storage.delete("etl/r1")
    storage.delete("etl/r1")
    assert os.listdir(tmp_path / "root" / "etl") == ["r2"]

    storage.drop("etl/r2/load/1.log", [0])
    assert os.listdir(tmp_path / "root") == []


def test_a_log_below_several_directories_is_read_as_one_in_its_own(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / KEY, 2**16)
    writer.write(b"line\n" * 10_000)
    writer.close()

    assert LogFile(tmp_path / KEY, tmp_path).list() == LogFile(tmp_path / KEY).list()
    assert len(LogFile(tmp_path / KEY).list()) > 1


def test_a_tree_that_is_nested_too_deeply_stops_no_other_deletion(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deep = tmp_path / "logs/etl/a"
    for _ in range(100):
        deep.mkdir(parents=True)
        os.chdir(deep)
        deep = Path("d")
    old = tmp_path / "logs" / KEY
    old.parent.mkdir(parents=True)
    old.write_text("old\n")
    os.utime(old, (0, 0))
    os.chdir(tmp_path)

    with SqlStore(f"sqlite:///{tmp_path}/holdfast.db") as store:
        assert delete_old_logs(store, tmp_path, timedelta(days=1)) == 1
    delete_local_logs(tmp_path, "etl", "a")

    assert (
        "cannot be deleted: 1; first: [Errno 40] directories are nested too deeply" in caplog.text
    )
    assert "logs of etl/a cannot be deleted" in caplog.text


def test_a_file_that_cannot_be_deleted_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("1.log", "kept", "z.log"):
        path = tmp_path / "logs/etl/r1/load" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text\n")
    unlink = os.unlink

    def refuse(name: str, **options: Any) -> None:
        if name == "kept":
            raise PermissionError(1, "not permitted", name)
        unlink(name, **options)

    monkeypatch.setattr(os, "unlink", refuse)
    delete_local_logs(tmp_path, "etl", "r1")

    assert files(tmp_path / "logs") == ["kept"]
    assert "logs of etl/r1 cannot be deleted: [Errno 1] not permitted: 'kept'" in caplog.text
