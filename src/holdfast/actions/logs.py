"""Paths of the log files of attempts, one for each, below the home directory."""

from __future__ import annotations

import shutil
from pathlib import Path

from holdfast.model.path_part import path_part
from holdfast.model.scope import TaskScope


def log_path(home: Path, scope: TaskScope, attempt: int) -> Path:
    """Return the file with the output of an attempt."""
    mapped = f".{scope.map_index}" if scope.map_index >= 0 else ""
    task = path_part(scope.task_id) + mapped
    return run_logs(home, scope.dag_id, scope.run_id) / task / f"{attempt}.log"


def run_logs(home: Path, dag_id: str, run_id: str) -> Path:
    """Return the directory with the output of all attempts of a run."""
    return home / "logs" / path_part(dag_id) / path_part(run_id)


def remove_logs_of_dag(home: Path, dag_id: str) -> None:
    """Remove the output of all runs of a DAG."""
    shutil.rmtree(home / "logs" / path_part(dag_id), ignore_errors=True)


def service_logs(home: Path) -> Path:
    """Return the directory with the output outside of attempts: of DAG files as they are read,
    callbacks and watchers. It is not below `logs`, where every name may be that of a DAG."""
    return home / "service-logs"


def watcher_log(home: Path, asset: str, watcher: str) -> Path:
    """Return the file with the output of a watcher."""
    return service_logs(home) / "watchers" / path_part(asset) / f"{path_part(watcher)}.log"
