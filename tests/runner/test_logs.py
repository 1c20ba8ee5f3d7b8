"""Paths of log files."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.actions.logs import log_path, run_logs, service_logs, watcher_log
from holdfast.model.scope import TaskScope

HOME = Path("home")


def test_the_path_contains_dag_run_task_and_attempt():
    scope = TaskScope("etl", "scheduled__2026-01-01", "load")

    assert log_path(HOME, scope, 2) == Path("home/logs/etl/scheduled__2026-01-01/load/2.log")


def test_the_path_contains_the_map_index():
    assert log_path(HOME, TaskScope("etl", "r1", "load", 7), 1).parent.name == "load.7"


@pytest.mark.parametrize("id", ["..", "/etc/passwd", "a/b", ".hidden", "ü 🚀", "%2E", "x" * 250])
def test_any_id_is_one_directory_below_that_of_its_run(tmp_path, id):
    path = log_path(tmp_path, TaskScope(id, id, id, 2**31 - 1), 1)

    path.parent.mkdir(parents=True)

    assert len(path.relative_to(tmp_path).parts) == 5
    assert path.resolve() == path


def test_different_tasks_have_different_files():
    long = "🚀" * 240
    scopes = [
        TaskScope("etl", "r1", "load", 0),
        TaskScope("etl", "r1", "load.0"),
        TaskScope("etl", "r1", "load%2E0"),
        TaskScope("etl", "r1", long + "a"),
        TaskScope("etl", "r1", long + "b"),
    ]

    assert len({log_path(HOME, scope, 1) for scope in scopes}) == len(scopes)


def test_the_logs_of_a_run_are_in_its_directory():
    path = log_path(HOME, TaskScope("etl", "r1", "load"), 1)

    assert path.is_relative_to(run_logs(HOME, "etl", "r1"))


@pytest.mark.parametrize("dag_id", ["watchers", "service-logs", "dag-files.log", "callbacks.log"])
def test_no_dag_shares_a_directory_with_logs_outside_of_attempts(dag_id):
    shared = run_logs(HOME, dag_id, "orders")

    assert not shared.is_relative_to(service_logs(HOME))
    assert not service_logs(HOME).is_relative_to(shared.parent)


@pytest.mark.parametrize("name", ["..", ".", "a/b", "s3://lake/orders", "x" * 1500])
def test_any_asset_has_one_directory_for_its_watchers(tmp_path, name):
    path = watcher_log(tmp_path, name, name)

    path.parent.mkdir(parents=True)
    path.touch()

    assert path.parent.parent == service_logs(tmp_path) / "watchers"
    assert path.resolve() == path
