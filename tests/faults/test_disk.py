"""Embedded store on a full, read-only or damaged disk."""

from __future__ import annotations

import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from clarity import refusal

from holdfast import commands as c
from holdfast.connection import open_store
from holdfast.errors import StoreUnavailable
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import TaskScope
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import load
from holdfast.stores.sql import SqlStore
from holdfast.stores.sql.dialects import sqlite

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
KILOBYTE = f'"{"x" * 1022}"'


class Disk:
    """Small file system of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path / 'store.db'}"

    def mount(self, options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "holdfast-test", str(self.path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")

    def remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.path)], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if not shutil.which("mount"):
        pytest.skip("there is no mount command here")
    disk = Disk(tmp_path)
    disk.mount("size=1m")
    yield disk
    disk.unmount()


def fill(store: SqlStore) -> int:
    """Write until it fails; how many writes were acknowledged."""
    store.execute(c.RegisterTask(TASK))
    for number in range(100_000):
        try:
            store.execute(c.Set(TASK, f"{number}", KILOBYTE, ANN))
        except StoreUnavailable:
            return number
    raise AssertionError("the disk does not fill up")


def test_a_write_to_a_full_disk_is_an_error(disk: Disk) -> None:
    ballast = disk.path / "ballast"
    ballast.write_bytes(b"x" * 300_000)
    with SqlStore(disk.url) as store:
        written = fill(store)
        error = refusal(StoreUnavailable, store.execute, c.Set(TASK, "more", KILOBYTE * 100, ANN))
        assert "disk is full" in error.message
        assert "free some space" in error.hint
        batch = tuple((f"batch {number}", KILOBYTE) for number in range(100))
        refusal(StoreUnavailable, store.execute, c.SetMany(TASK, batch, ANN))
        assert store.execute(c.List(TASK)).total == written

        ballast.unlink()
        store.execute(c.Set(TASK, "more", KILOBYTE, ANN))
        assert store.execute(c.List(TASK)).total == written + 1


def test_opening_a_new_store_on_a_full_disk_is_an_error(disk: Disk) -> None:
    (disk.path / "ballast").write_bytes(b"x" * 1_044_000)
    refusal(StoreUnavailable, SqlStore, disk.url)
    (disk.path / "ballast").unlink()
    with SqlStore(disk.url) as store:
        store.execute(c.RegisterTask(TASK))


@pytest.mark.full
def test_a_write_over_the_file_size_limit_is_an_error(tmp_path: Path) -> None:
    """Run without mounting anything, as for a user whose quota is used up."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    code = (
        "import sys, test_disk; store = test_disk.SqlStore(sys.argv[1]);"
        "print(test_disk.fill(store))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, url],
        cwd=Path(__file__).parent,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert count(url) == int(done.stdout)


def test_a_write_to_a_disk_that_became_read_only_is_an_error(disk: Disk) -> None:
    with SqlStore(disk.url) as store:
        store.execute(c.RegisterTask(TASK))
        store.execute(c.Set(TASK, "key", "1", ANN))
    disk.remount("ro")
    error = refusal(StoreUnavailable, SqlStore, disk.url)
    assert "is writable" in error.hint

    disk.remount("rw")
    with SqlStore(disk.url) as store:
        assert store.execute(c.Get(TASK, "key")) == "1"


def test_a_write_to_a_read_only_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    with SqlStore(f"sqlite:///{file}") as store:
        store.execute(c.RegisterTask(TASK))
        store.execute(c.Set(TASK, "key", "1", ANN))
    with SqlStore(f"sqlite:///file:{file}?mode=ro&uri=true") as store:
        error = refusal(StoreUnavailable, store.execute, c.Set(TASK, "key", "2", ANN))
        assert "is read-only" in error.message
        assert store.execute(c.Get(TASK, "key")) == "1"


def test_opening_a_new_store_on_a_read_only_disk_is_an_error(disk: Disk) -> None:
    disk.remount("ro")
    error = refusal(StoreUnavailable, SqlStore, disk.url)
    assert "is writable" in error.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_opening_a_store_in_an_unwritable_directory_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    refusal(StoreUnavailable, SqlStore, f"sqlite:///{tmp_path / 'store.db'}")


def test_opening_a_file_that_is_not_a_database_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("Milk, eggs, bread.\n" * 100)
    error = refusal(StoreUnavailable, SqlStore, f"sqlite:///{file}")
    assert str(file) in error.message
    assert "is not a database" in error.message
    assert file.read_text() == "Milk, eggs, bread.\n" * 100
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_opening_a_directory_is_an_error(tmp_path: Path) -> None:
    error = refusal(StoreUnavailable, SqlStore, f"sqlite:///{tmp_path}")
    assert "cannot be opened" in error.message


def test_opening_an_impossible_path_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refusal(StoreUnavailable, SqlStore, f"sqlite:///{tmp_path / 'file' / 'store.db'}")


def count(url: str) -> int:
    with SqlStore(url) as store:
        return store.execute(c.List(TASK)).total


def test_reading_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with SqlStore(url) as store:
        store.execute(c.RegisterTask(TASK))
        values = tuple((f"{number}", KILOBYTE) for number in range(200))
        store.execute(c.SetMany(TASK, values, ANN))
    with open(tmp_path / "store.db", "r+b") as file:
        file.seek(16 * 4096)
        file.write(random.Random(0).randbytes(100 * 4096))
    error = refusal(StoreUnavailable, count, url)
    assert "is damaged" in error.message
    assert "backup" in error.hint


def test_a_file_locked_by_another_program_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 50)
    url = f"sqlite:///{tmp_path / 'store.db'}"
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    with SqlStore(url) as store:
        store.execute(c.RegisterTask(TASK))
        other.execute("BEGIN IMMEDIATE")
        error = refusal(StoreUnavailable, store.execute, c.Set(TASK, "key", "1", ANN))
        assert "is locked by another process" in error.message
        assert store.execute(c.Get(TASK, "key")) is None
        other.execute("COMMIT")
        store.execute(c.Set(TASK, "key", "1", ANN))
    other.close()


def test_opening_a_file_that_another_program_creates_waits(tmp_path: Path) -> None:
    """Wait explicitly, because SQLite does not when the journal mode is changed."""
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    commit = threading.Timer(0.3, other.execute, ["COMMIT"])
    commit.start()
    with SqlStore(f"sqlite:///{tmp_path / 'store.db'}") as store:
        store.execute(c.RegisterTask(TASK))
    commit.join()
    other.close()


def test_a_server_on_a_full_disk_is_not_ready(disk: Disk) -> None:
    settings = load(disk.path, {"HOLDFAST__API__PORT": "0"})
    with open_store(settings) as store:
        server = EmbeddedServer(store, settings)
        try:
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{server.url}/health")
        finally:
            server.close()

    body = msgspec.json.decode(refused.value.read())
    assert (refused.value.code, body["why"]) == (503, "the disk is full")
    assert 0 <= body["disk"]["free_bytes"]["database"] <= 2**20
