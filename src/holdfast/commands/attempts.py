"""Attempts of task instances, and the leases of those who supervise them."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from holdfast.commands.base import MOST_WRITES, Category, Command, ScopeCommand, check_count
from holdfast.errors import InvalidInput
from holdfast.model.entry import TaskWriter
from holdfast.model.role import Role
from holdfast.model.run import AttemptInfo, Ending, Outcome, Process, TaskState, Watch
from holdfast.model.scope import TaskScope
from holdfast.model.value import check_json


class StartAttempt(ScopeCommand[int], frozen=True):
    """Begin the next attempt of a task instance and fence off all earlier ones.

    Its task instance is running from now on, and the results of the attempt before are gone.
    """

    role = Role.EDITOR
    for_workers = True

    scope: TaskScope
    worker: Process | None = None
    lease: timedelta | None = None
    """How long the attempt counts as supervised without a heartbeat; None: for ever."""
    after: int | None = None
    """The newest attempt that the asker knows of: StaleAttempt where there is a newer one."""


class FinishAttempt(Command[None], frozen=True):
    """End the attempt. On success its staged writes take effect, all or none, with the success."""

    role = Role.EDITOR
    for_workers = True
    touches_entries = True

    writer: TaskWriter
    succeeded: bool
    clear: bool = False
    """With success: clear the task store in the same transaction."""
    ending: Ending | None = None
    """What a runner knows beyond that; without it, the task instance has succeeded or failed."""

    def __post_init__(self) -> None:
        if self.writer.attempt is None:
            raise InvalidInput(f"{self.writer.scope}: it is not said which attempt has ended")
        if self.ending is not None:
            _check_ending(self.writer.scope, self.ending, self.succeeded)

    @property
    def repeatable(self) -> bool:
        return False


_STATES: Final = {
    Outcome.SUCCESS: {TaskState.SUCCESS},
    Outcome.FAILED: {TaskState.FAILED, TaskState.UP_FOR_RETRY},
    Outcome.SKIPPED: {TaskState.SKIPPED},
    Outcome.INTERRUPTED: {TaskState.SCHEDULED, TaskState.FAILED},
    Outcome.STOPPED: set(),
}
"""What may become of a task instance when an attempt has ended so."""


def _check_ending(scope: TaskScope, ending: Ending, succeeded: bool) -> None:
    outcome, state = ending.outcome, ending.state
    if succeeded != (outcome is Outcome.SUCCESS) or state not in _STATES[outcome]:
        raise InvalidInput(
            f"{scope}: an attempt that ended with {outcome} leaves no task that is {state}"
        )
    if ending.result is not None:
        check_json(f"the result of {scope}", ending.result)
    check_count(f"events of {scope}", len(ending.events), MOST_WRITES)
    if ending.events and not succeeded:
        raise InvalidInput(f"{scope}: only an attempt that succeeded has events")


class ListAttempts(ScopeCommand[tuple[AttemptInfo, ...]], frozen=True):
    """The attempts of a task instance, oldest first."""

    category = Category.READS

    scope: TaskScope


class Lost(msgspec.Struct, frozen=True):
    """Leases that somebody else has, or that nobody needs any more."""

    runs: tuple[tuple[str, str], ...] = ()
    attempts: tuple[TaskWriter, ...] = ()
    watches: tuple[Watch, ...] = ()


MOST_LEASES: Final = 10_000


class Heartbeat(Command[Lost], frozen=True, kw_only=True):
    """Renew leases; answers which of them are no longer the asker's. A run that the asker has
    ended is not among those."""

    process: Process
    lease: timedelta
    runs: tuple[tuple[str, str], ...] = ()
    attempts: tuple[TaskWriter, ...] = ()
    watches: tuple[Watch, ...] = ()

    def __post_init__(self) -> None:
        for leases in (self.runs, self.attempts, self.watches):
            check_count(f"leases of {self.process}", len(leases), MOST_LEASES)


class InterruptAttempts(Command[tuple[AttemptInfo, ...]], frozen=True, kw_only=True):
    """End the live attempts of a run as interrupted, and answer which they were.

    The asker holds the run and knows that nobody supervises them any more, or asks for those
    alone whose lease has passed. Their tasks are scheduled again, or failed where that has happened
    `limit` times in a row.
    """

    dag_id: str
    run_id: str
    process: Process
    limit: int
    reason: str
    expired: bool = False
