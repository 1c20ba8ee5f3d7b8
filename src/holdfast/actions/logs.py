"""Logs of attempts: their paths below the home directory, and the places where they can be read."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NamedTuple

from holdfast import commands as c
from holdfast.errors import NotFound
from holdfast.logs.files import LogFile
from holdfast.logs.log import Log
from holdfast.model.path_part import path_part
from holdfast.model.run import AttemptInfo, TaskInstance
from holdfast.model.scope import TaskScope
from holdfast.settings import Settings
from holdfast.store import Steps


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


def open_log(settings: Settings, attempt: LoggedAttempt) -> Log | None:
    """Return the log of an attempt as far as it is on this machine; None where it is not."""
    # With a server in place of the database, the file of another machine's attempt would be that of
    # another store.
    if not settings.server_url or attempt.host == socket.gethostname():
        file = LogFile(log_path(settings.home, attempt.scope, attempt.number))
        if file.list():
            return file
    return None


def no_log(settings: Settings, attempt: LoggedAttempt) -> NotFound:
    """Return the error for a log that is not on this machine."""
    here = socket.gethostname()
    if attempt.host in ("", here):
        path = log_path(settings.home, attempt.scope, attempt.number)
        return NotFound(
            f"there is no log of {attempt} on {here}: no file {path}",
            hint="logs are on the machine that ran the attempt, under core.home of its scheduler",
        )
    return NotFound(
        f"there is no log of {attempt} on this machine",
        hint=f"logs are on the machine that ran the attempt, {attempt.host}, under core.home of "
        "its scheduler",
    )


def log_path(home: Path, scope: TaskScope, attempt: int) -> Path:
    """Return the file with the output of an attempt."""
    mapped = f".{scope.map_index}" if scope.map_index >= 0 else ""
    task = path_part(scope.task_id) + mapped
    return run_logs(home, scope.dag_id, scope.run_id) / task / f"{attempt}.log"


def run_logs(home: Path, dag_id: str, run_id: str) -> Path:
    """Return the directory with the output of all attempts of a run."""
    return home / "logs" / path_part(dag_id) / path_part(run_id)


def service_logs(home: Path) -> Path:
    """Return the directory with the output outside of attempts: of DAG files as they are read,
    callbacks and watchers. It is not below `logs`, where every name may be that of a DAG."""
    return home / "service-logs"


def watcher_log(home: Path, asset: str, watcher: str) -> Path:
    """Return the file with the output of a watcher."""
    return service_logs(home) / "watchers" / path_part(asset) / f"{path_part(watcher)}.log"
