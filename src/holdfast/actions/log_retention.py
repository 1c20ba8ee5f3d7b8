"""Deletion of logs: of deleted runs and DAGs, and of files by age."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Set
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path

from holdfast import commands as c
from holdfast.actions.logs import (
    delete_stored_logs,
    log_path,
    logs_directory,
    run_key,
    service_logs,
    watcher_log,
)
from holdfast.logs.directory import Directory, walk
from holdfast.logs.files import log_of
from holdfast.model.path_part import path_part, text_of
from holdfast.model.run import TaskState
from holdfast.settings import Settings
from holdfast.store import Store

log = logging.getLogger("holdfast.cleanup")


def delete_logs(settings: Settings, dag_id: str, run_id: str | None = None) -> None:
    """Delete the logs of a deleted run, or of all runs of a deleted DAG, on this machine and in
    storage. Raise BackendFailed, which names what remains, if that fails."""
    delete_local_logs(settings.home, dag_id, run_id)
    delete_stored_logs(settings, dag_id, run_id)


def delete_local_logs(home: Path, dag_id: str, run_id: str | None = None) -> None:
    """Delete the logs of a run, or of all runs of a DAG, on this machine."""
    _delete_below(home, path_part(dag_id) if run_id is None else run_key(dag_id, run_id))


def delete_logs_of_deleted_runs(store: Store, home: Path) -> int:
    """Delete the logs of runs that were deleted, by whichever process; return of how many.

    A run whose id is so long that its directory has a digest in place of the end is not recognized.
    """
    count = 0
    with _reporting() as failures:
        for dag_id, directory in _directories(logs_directory(home), failures):
            runs = _directories(directory, failures)
            while batch := dict(islice(runs, c.MOST_PRUNED)):
                gone = store.execute(c.DeletedRuns(dag_id, tuple(batch)))
                for run_id in gone:
                    _delete_below(home, f"{directory.name}/{batch[run_id].name}")
                count += len(gone)
            _remove_empty(directory)
    return count


def delete_old_logs(store: Store, home: Path, age: timedelta) -> int:
    """Delete log files that nothing was written to for that long, except those of live attempts and
    watchers, and directories that are empty then. Return how many files."""
    oldest = time.time() - age.total_seconds()
    live = set(_live_logs(store, home))
    roots = (logs_directory(home), service_logs(home))
    with _reporting() as failures:
        return sum(_delete_older(root, oldest, live, failures) for root in roots)


def _live_logs(store: Store, home: Path) -> Iterator[Path]:
    for task in store.execute(c.ListTaskInstances(states=(TaskState.RUNNING,))):
        yield log_path(home, task.scope, task.attempt)
    now = store.execute(c.Now())
    for info in store.execute(c.ListWatches()):
        asset = info.watch.asset.name
        if asset is not None and info.leased_until is not None and info.leased_until > now:
            yield watcher_log(home, asset, info.watch.watcher)


def _delete_older(root: Path, oldest: float, live: Set[Path], failures: list[OSError]) -> int:
    count = 0
    with _noting(failures), ExitStack() as stack:
        # By descriptor: a directory may become a link while it is looked at.
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, top)
        for path, directories, files, descriptor in walk(top, failures.append):
            folder = root / path
            for name in files:
                with _noting(failures, folder / name):
                    written = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mtime
                    if written < oldest and log_of(folder / name) not in live:
                        os.unlink(name, dir_fd=descriptor)
                        count += 1
            for name in directories:
                with suppress(OSError):  # it is not empty
                    os.rmdir(name, dir_fd=descriptor)
    return count


def _directories(parent: Path, failures: list[OSError]) -> Iterator[tuple[str, Path]]:
    """Yield each directory whose name is that of a DAG or run, with the id."""
    with _noting(failures), os.scandir(parent) as found:
        for one in found:
            id = text_of(one.name)
            if id is not None and one.is_dir(follow_symlinks=False):
                yield id, Path(one.path)


@contextmanager
def _reporting() -> Iterator[list[OSError]]:
    """Yield a list for failures; log how many there were."""
    failures: list[OSError] = []
    yield failures
    if failures:
        log.warning("logs that cannot be deleted: %s; first: %s", len(failures), failures[0])


@contextmanager
def _noting(failures: list[OSError], path: Path | None = None) -> Iterator[None]:
    """Add an error of the `with` block, with the path, to the failures, unless another process was
    quicker."""
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        error.filename = error.filename if path is None else str(path)
        failures.append(error)


def _remove_empty(directory: Path) -> None:
    with suppress(OSError):  # it is not empty
        directory.rmdir()


def _delete_below(home: Path, key: str) -> None:
    """Delete the logs of a key as far as possible, and directories that are empty then. Log what
    cannot be deleted."""
    try:
        Directory(str(logs_directory(home))).delete_tree(key)
    except OSError as error:
        log.warning("logs of %s cannot be deleted: %s", key, error)
