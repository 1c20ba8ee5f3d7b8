"""Deletion of logs: of deleted runs, and by age."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import commands as c
from holdfast.actions.log_retention import (
    delete_local_logs,
    delete_logs_of_deleted_runs,
    delete_old_logs,
)
from holdfast.actions.logs import log_path, service_logs, watcher_log
from holdfast.model.run import Process
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.stores.sql import SqlStore

DAY = timedelta(days=1)
HERE = Process("here", 1, "t0")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".holdfast"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with SqlStore(f"sqlite:///{tmp_path / 'store.db'}") as store:
        yield store


def written(path: Path, age: timedelta = timedelta(0)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("hello\n")
    at = time.time() - age.total_seconds()
    os.utime(path, (at, at))
    return path


def log_of(home: Path, run_id: str, dag_id: str = "etl", age: timedelta = timedelta(0)) -> Path:
    return written(log_path(home, TaskScope(dag_id, run_id, "load"), 1), age)


def directories(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_dir())


def test_the_logs_of_a_run_leave_no_empty_directories(home):
    log_of(home, "r1")
    log_of(home, "r2")

    delete_local_logs(home, "etl", "r1")
    assert directories(home) == ["logs", "logs/etl", "logs/etl/r2", "logs/etl/r2/load"]

    delete_local_logs(home, "etl", "r2")
    assert directories(home) == ["logs"]


@pytest.mark.parametrize("run_id", ["r1", "ünï/cödé", "..", "a.0", "scheduled__2026-01-01T00:00"])
def test_logs_of_runs_that_another_machine_deleted_are_deleted(home, store, run_id):
    for dag_id in ("etl", "mart"):
        store.execute(c.RegisterTask(TaskScope(dag_id, run_id, "load")))
        log_of(home, run_id, dag_id)
    store.execute(c.DeleteRun("etl", run_id))

    assert delete_logs_of_deleted_runs(store, home) == 1
    assert [path.name for path in (home / "logs").iterdir()] == ["mart"]
    assert delete_logs_of_deleted_runs(store, home) == 0


def test_logs_of_runs_that_the_store_never_had_are_kept(home, store):
    unknown = log_of(home, "r1")
    foreign = written(home / "logs" / "etl" / "r~1" / "notes")

    assert delete_logs_of_deleted_runs(store, home) == 0
    assert (unknown.exists(), foreign.exists()) == (True, True)


def test_logs_of_more_runs_than_are_asked_for_at_once_are_deleted(home, store):
    for number in range(c.MOST_PRUNED + 1):
        run_id = f"r{number}"
        store.execute(c.RegisterTask(TaskScope("etl", run_id, "load")))
        store.execute(c.DeleteRun("etl", run_id))
        log_of(home, run_id)

    assert delete_logs_of_deleted_runs(store, home) == c.MOST_PRUNED + 1
    assert directories(home) == ["logs"]


def test_without_logs_nothing_is_deleted(home, store):
    assert delete_logs_of_deleted_runs(store, home) == 0
    assert delete_old_logs(store, home, DAY) == 0


def test_old_log_files_are_deleted_and_younger_ones_kept(home, store):
    log_of(home, "r1", age=2 * DAY)
    young = log_of(home, "r2")
    written(service_logs(home) / "callbacks.log", 2 * DAY)
    written(watcher_log(home, "orders", "files"), 2 * DAY)

    assert delete_old_logs(store, home, DAY) == 3
    assert young.exists()
    assert directories(home) == [
        "logs",
        "logs/etl",
        "logs/etl/r2",
        "logs/etl/r2/load",
        "service-logs",
    ]


def test_the_log_of_a_live_attempt_or_watcher_is_kept_however_old(home, store):
    scope = TaskScope("etl", "r1", "load")
    store.execute(c.RegisterTask(scope))
    for _ in range(2):
        store.execute(c.StartAttempt(scope, HERE, DAY))
    store.execute(c.DeclareAsset("orders"))
    store.execute(
        c.StartWatch(asset=AssetScope(name="orders"), watcher="files", process=HERE, lease=DAY)
    )
    first, second = (written(log_path(home, scope, number), 2 * DAY) for number in (1, 2))
    watched = written(watcher_log(home, "orders", "files"), 2 * DAY)
    piece = written(second.with_name(f"2.log.{16:020}"), 2 * DAY)

    assert delete_old_logs(store, home, DAY) == 1
    kept = (second, piece, watched)
    assert [one.exists() for one in (first, *kept)] == [False, True, True, True]


def test_a_file_that_cannot_be_deleted_keeps_no_other_and_is_reported_once(
    home, store, monkeypatch, caplog
):
    paths = [log_of(home, run_id, age=2 * DAY) for run_id in ("r1", "r2", "r3")]
    paths += [written(service_logs(home) / name, 2 * DAY) for name in ("a.log", "b.log", "c.log")]
    stuck = {paths[0], *paths[3:5]}
    unlink = os.unlink

    def refuse(name: str, *, dir_fd: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{dir_fd}"), name) in stuck:
            raise PermissionError(1, "Operation not permitted", name)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)

    assert delete_old_logs(store, home, DAY) == 3

    assert {path for path in paths if path.exists()} == stuck
    [record] = caplog.records
    assert record.getMessage().startswith("logs that cannot be deleted: 3; first: ")
    assert any(record.getMessage().endswith(f"'{path}'") for path in stuck)


def test_a_directory_that_cannot_be_read_keeps_no_other(home, store, monkeypatch, caplog):
    for dag_id in ("etl", "mart"):
        scope = TaskScope(dag_id, "r1", "load")
        store.execute(c.RegisterTask(scope))
        log_of(home, "r1", dag_id)
        store.execute(c.DeleteRun(dag_id, "r1"))
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if path == home / "logs" / "etl":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)

    assert delete_logs_of_deleted_runs(store, home) == 1

    assert "logs that cannot be deleted: 1; first: " in caplog.text
