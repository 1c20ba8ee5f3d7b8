"""Logs of attempts: their paths below the home directory, and the places where they can be read."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holdfast import commands as c
from holdfast.errors import BackendFailed, HoldfastError, NotFound
from holdfast.logs.files import LogFile
from holdfast.logs.log import Log
from holdfast.model.path_part import path_part
from holdfast.model.run import AttemptInfo, TaskInstance
from holdfast.model.scope import TaskScope
from holdfast.settings import Settings
from holdfast.store import Steps, Store

if TYPE_CHECKING:
    from holdfast.logs.storage import LogStorage


class LoggedAttempt(NamedTuple):
    """An attempt that has a log somewhere."""

    scope: TaskScope
    number: int
    host: str
    """The name of the machine that ran it; empty where it is not known."""
    ended: bool

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.scope}"


def find_attempt(instance: Steps[TaskInstance], number: int | None) -> Steps[LoggedAttempt]:
    """Return the attempt of that number, or the newest. Raise NotFound where there is none."""
    one = yield from instance
    if not one.attempt:
        raise NotFound(
            f"{one.scope} has not started", hint="there is a log once an attempt has started"
        )
    if number is not None and number > one.attempt:
        raise NotFound(f"{one.scope} has no attempt {number}", hint=f"the newest is {one.attempt}")
    return (yield from read_attempt(one.scope, number or one.attempt))


def read_attempt(scope: TaskScope, number: int) -> Steps[LoggedAttempt]:
    """Return an attempt in its present state. It has ended where its record was deleted."""
    attempts = yield c.ListAttempts(scope)
    info = next((each for each in attempts if each.number == number), None)
    return LoggedAttempt(scope, number, host_of(info), info is None or info.ended_at is not None)


def host_of(attempt: AttemptInfo | None) -> str:
    """Return the name of the machine that ran an attempt; empty where it is not known."""
    return attempt.worker.hostname if attempt and attempt.worker else ""


def open_log(settings: Settings, attempt: LoggedAttempt, store: Store | None = None) -> Log:
    """Return the log of an attempt: on this machine, else in storage, else from the server that is
    configured in place of a database, and is `store`. Raise NotFound where there is none, and
    BackendFailed if the storage cannot be read."""
    file = find_log_file(settings, attempt)
    if file is not None:
        return file
    if settings.logs.url:
        try:
            stored = _storage(settings).log(log_key(attempt.scope, attempt.number))
            if stored.exists():
                return stored
        except HoldfastError:
            if not settings.server_url:  # which may have the credentials that are missing here
                raise
    if settings.server_url:
        from holdfast.logs.served import ServedLog
        from holdfast.stores.http import HttpStore

        assert isinstance(store, HttpStore)
        served = ServedLog(store, attempt.scope, attempt.number)
        served.tail(0)
        return served
    raise _no_log(settings, attempt)


def find_log_file(settings: Settings, attempt: LoggedAttempt) -> LogFile | None:
    """Return the log of an attempt on this machine, if it has one."""
    # With a server, the file of another machine's attempt would be that of another store.
    if settings.server_url and attempt.host != socket.gethostname():
        return None
    path = log_path(settings.home, attempt.scope, attempt.number)
    file = LogFile(path, logs_directory(settings.home))
    return file if file.exists() else None


def delete_stored_logs(settings: Settings, dag_id: str, run_id: str | None = None) -> None:
    """Delete the logs of a deleted run, or of all runs of a deleted DAG, from storage, if one is
    configured. Raise BackendFailed, which names what remains, if that fails."""
    if not settings.logs.url:
        return
    deleted, key = f"DAG `{dag_id}`", path_part(dag_id)
    if run_id is not None:
        deleted, key = f"run `{run_id}` of `{dag_id}`", run_key(dag_id, run_id)
    try:
        _storage(settings).delete(key)
    except BackendFailed as error:
        raise BackendFailed(
            f"{deleted} is deleted, but not its logs: {error.message}",
            hint=f"delete {settings.logs.url}/{key} with the tools of the storage",
        ) from None


def _storage(settings: Settings) -> LogStorage:
    from holdfast.logs.storage import log_storage  # loads the client for the storage

    return log_storage(settings.logs.url)


def _no_log(settings: Settings, attempt: LoggedAttempt) -> NotFound:
    here = socket.gethostname()
    where = f"on {here}"
    if attempt.host in ("", here):
        where += f" (no file {log_path(settings.home, attempt.scope, attempt.number)})"
    if settings.logs.url:
        where += f", nor in {settings.logs.url}"
    ran = f"the machine that ran the attempt{f', {attempt.host}' if attempt.host else ''}"
    hint = f"logs are on {ran}, under core.home of its scheduler"
    if not settings.logs.url:
        hint += "; with [logs] url, they can be read from every machine"
    return NotFound(f"there is no log of {attempt} {where}", hint=hint)


def log_path(home: Path, scope: TaskScope, attempt: int) -> Path:
    """Return the file with the output of an attempt."""
    return logs_directory(home) / log_key(scope, attempt)


def logs_directory(home: Path) -> Path:
    """Return the directory with the output of all attempts."""
    return home / "logs"


def log_key(scope: TaskScope, attempt: int) -> str:
    """Return the path of an attempt's log, relative to the directory of all, and in storage."""
    mapped = f".{scope.map_index}" if scope.map_index >= 0 else ""
    task = path_part(scope.task_id) + mapped
    return f"{run_key(scope.dag_id, scope.run_id)}/{task}/{attempt}.log"


def run_key(dag_id: str, run_id: str) -> str:
    """Return the path of the logs of a run, relative to the directory of all, and in storage."""
    return f"{path_part(dag_id)}/{path_part(run_id)}"


def run_logs(home: Path, dag_id: str, run_id: str) -> Path:
    """Return the directory with the output of all attempts of a run."""
    return logs_directory(home) / run_key(dag_id, run_id)


def service_logs(home: Path) -> Path:
    """Return the directory with the output outside of attempts: of DAG files as they are read,
    callbacks and watchers. It is not below `logs`, where every name may be that of a DAG."""
    return home / "service-logs"


def callbacks_log(home: Path) -> Path:
    """Return the file with the output of callbacks of runs, and of attempts that have no log here:
    they were on another machine, or never began."""
    return service_logs(home) / "callbacks.log"


def watcher_log(home: Path, asset: str, watcher: str) -> Path:
    """Return the file with the output of a watcher."""
    return service_logs(home) / "watchers" / path_part(asset) / f"{path_part(watcher)}.log"
