"""Attempts of task instances, and the leases of their supervisors."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from holdfast.commands.base import (
    MOST_WRITES,
    Category,
    Command,
    RunCommand,
    ScopeCommand,
    check_count,
)
from holdfast.errors import InvalidInput
from holdfast.model.entry import TaskWriter
from holdfast.model.role import Role
from holdfast.model.run import AttemptInfo, Ending, Outcome, Process, TaskState, Watch
from holdfast.model.scope import TaskScope
from holdfast.model.value import check_json


class StartAttempt(ScopeCommand[int], frozen=True):
    """Start the next attempt of a task instance and fence off all earlier ones.

    The task instance is running from now on, and the results of the previous attempt are deleted.
    """

    role = Role.EDITOR
    for_workers = True

    scope: TaskScope
    worker: Process | None = None
    lease: timedelta | None = None
    """How long the attempt counts as supervised without a heartbeat; None: forever."""
    after: int | None = None
    """The newest attempt that the caller knows of: StaleAttempt where there is a newer one."""
    pool: str | None = None
    """The pool whose slots it takes up while it runs: NoFreeSlot where they are not free."""
    pool_slots: int = 1


class FinishAttempt(Command[None], frozen=True):
    """End the attempt. On success its staged writes take effect, all or none, with the success."""

    role = Role.EDITOR
    for_workers = True
    touches_entries = True
    repeatable = False

    writer: TaskWriter
    succeeded: bool
    clear: bool = False
    """With success: clear the task store in the same transaction."""
    ending: Ending | None = None
    """Further details of a runner; without them, the task instance has succeeded or failed."""

    def __post_init__(self) -> None:
        if self.writer.attempt is None:
            raise InvalidInput(
                f"{self.writer.scope}: the number of the attempt that ended is missing"
            )
        if self.ending is not None:
            _check_ending(self.writer.scope, self.ending, self.succeeded)


_STATES: Final = {
    Outcome.SUCCESS: {TaskState.SUCCESS},
    Outcome.FAILED: {TaskState.FAILED, TaskState.UP_FOR_RETRY},
    Outcome.SKIPPED: {TaskState.SKIPPED},
    Outcome.INTERRUPTED: {TaskState.SCHEDULED, TaskState.FAILED},
    Outcome.STOPPED: set(),
}
"""The states that a task instance may have after an attempt with that outcome."""


def _check_ending(scope: TaskScope, ending: Ending, succeeded: bool) -> None:
    outcome, state = ending.outcome, ending.state
    if succeeded != (outcome is Outcome.SUCCESS) or state not in _STATES[outcome]:
        raise InvalidInput(
            f"{scope}: an attempt that ended with {outcome} cannot leave the task {state}"
        )
    if ending.result is not None:
        check_json(f"the result of {scope}", ending.result)
    check_count(f"events of {scope}", len(ending.events), MOST_WRITES)
    if ending.events and not succeeded:
        raise InvalidInput(f"{scope}: only a successful attempt can have events")


class ListAttempts(ScopeCommand[tuple[AttemptInfo, ...]], frozen=True):
    """List the attempts of a task instance, oldest first."""

    category = Category.READS

    scope: TaskScope


class Lost(msgspec.Struct, frozen=True):
    """Leases that are held by another process, or that are no longer needed."""

    runs: tuple[tuple[str, str], ...] = ()
    attempts: tuple[TaskWriter, ...] = ()
    watches: tuple[Watch, ...] = ()


MOST_LEASES: Final = 10_000


class Heartbeat(Command[Lost], frozen=True, kw_only=True):
    """Renew leases; return those that the caller no longer holds. A run that the caller has ended
    is not among them."""

    process: Process
    lease: timedelta
    runs: tuple[tuple[str, str], ...] = ()
    attempts: tuple[TaskWriter, ...] = ()
    watches: tuple[Watch, ...] = ()

    def __post_init__(self) -> None:
        for leases in (self.runs, self.attempts, self.watches):
            check_count(f"leases of {self.process}", len(leases), MOST_LEASES)


class InterruptAttempts(RunCommand[tuple[AttemptInfo, ...]], frozen=True, kw_only=True):
    """End the live attempts of a run as interrupted, and return them.

    The caller holds the run and knows that they are no longer supervised, or asks only for those
    whose lease has expired. Their tasks are scheduled again, or failed after `limit` interruptions
    in a row.
    """

    process: Process
    limit: int
    reason: str
    expired: bool = False
