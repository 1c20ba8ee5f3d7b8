"""Deletion of logs on this machine: of runs that were deleted, and of files by age."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Set
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path

from holdfast import commands as c
from holdfast.actions.logs import log_path, run_logs, service_logs, watcher_log
from holdfast.logs.files import log_of
from holdfast.model.path_part import text_of
from holdfast.model.run import TaskState
from holdfast.store import Store


def delete_run_logs(home: Path, dag_id: str, run_id: str) -> None:
    """Delete the logs of a run, and directories that are empty then."""
    logs = run_logs(home, dag_id, run_id)
    shutil.rmtree(logs, ignore_errors=True)
    _remove_empty(logs.parent)


def delete_logs_of_deleted_runs(store: Store, home: Path) -> int:
    """Delete the logs of runs that were deleted, by whichever process; return of how many.

    A run whose id is so long that its directory has a digest in place of the end is not recognized.
    """
    count = 0
    for dag_id, directory in _directories(home / "logs"):
        runs = _directories(directory)
        while batch := dict(islice(runs, c.MOST_PRUNED)):
            gone = store.execute(c.DeletedRuns(dag_id, tuple(batch)))
            for run_id in gone:
                shutil.rmtree(batch[run_id], ignore_errors=True)
            count += len(gone)
        _remove_empty(directory)
    return count


def delete_old_logs(store: Store, home: Path, age: timedelta) -> int:
    """Delete log files that nothing was written to for that long, except those of live attempts and
    watchers, and directories that are empty then. Return how many files."""
    oldest = time.time() - age.total_seconds()
    live = set(_live_logs(store, home))
    roots = (home / "logs", service_logs(home))
    return sum(_delete_older(root, oldest, live) for root in roots if root.is_dir())


def _live_logs(store: Store, home: Path) -> Iterator[Path]:
    for task in store.execute(c.ListTaskInstances(states=(TaskState.RUNNING,))):
        yield log_path(home, task.scope, task.attempt)
    now = store.execute(c.Now())
    for info in store.execute(c.ListWatches()):
        asset = info.watch.asset.name
        if asset is not None and info.leased_until is not None and info.leased_until > now:
            yield watcher_log(home, asset, info.watch.watcher)


def _delete_older(directory: Path, oldest: float, live: Set[Path]) -> int:
    count = 0
    with suppress(OSError), os.scandir(directory) as found:
        for one in found:
            path = Path(one.path)
            if one.is_dir(follow_symlinks=False):
                count += _delete_older(path, oldest, live)
                _remove_empty(path)
            elif log_of(path) not in live and one.stat(follow_symlinks=False).st_mtime < oldest:
                path.unlink(missing_ok=True)
                count += 1
    return count


def _directories(parent: Path) -> Iterator[tuple[str, Path]]:
    """Yield each directory whose name is that of a DAG or run, with the id."""
    with suppress(FileNotFoundError), os.scandir(parent) as found:
        for one in found:
            id = text_of(one.name)
            if id is not None and one.is_dir(follow_symlinks=False):
                yield id, Path(one.path)


def _remove_empty(directory: Path) -> None:
    with suppress(OSError):  # it is not empty
        directory.rmdir()
