"""Task instances of runs."""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Literal

import msgspec
from msgspec.structs import force_setattr

from holdfast.commands.base import (
    MOST_WRITES,
    Category,
    Command,
    RunCommand,
    ScopeCommand,
    check_count,
)
from holdfast.commands.runs import _EACH_ONCE
from holdfast.errors import InvalidInput
from holdfast.model.entry import TaskWriter, Writer
from holdfast.model.role import Role
from holdfast.model.run import MAX_ERROR_LENGTH, Process, TaskInstance, TaskState
from holdfast.model.scope import TaskScope


class RegisterTask(ScopeCommand[None], frozen=True):
    """Register an external run and its task instance; does nothing where they exist."""

    role = Role.EDITOR

    scope: TaskScope


class ListTasks(RunCommand[tuple[TaskScope, ...]], frozen=True):
    """List the task instances of a run."""

    category = Category.READS


class ListTaskInstances(Command[tuple[TaskInstance, ...]], frozen=True, kw_only=True):
    """List task instances, ordered by dag, run, task and map index."""

    category = Category.READS
    paged = True
    identity = attrgetter("scope")

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    states: tuple[TaskState, ...] = ()
    limit: int | None = None
    offset: int = 0

    def __post_init__(self) -> None:
        check_count("states of tasks", len(self.states), len(TaskState), _EACH_ONCE)


class TaskChange(msgspec.Struct, frozen=True):
    """A task instance that gets a state without running. It is created where it does not exist."""

    task_id: str
    map_index: int
    state: TaskState
    error: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "error", self.error[:MAX_ERROR_LENGTH])


class ChangeTasks(RunCommand[None], frozen=True):
    """Apply the decisions of the process that holds a run to its tasks, all or nothing.

    Only instances that have not ended and are not running, or were removed, are changed; the others
    are left alone. Raises StaleAttempt where another process holds the run.
    """

    process: Process
    changes: tuple[TaskChange, ...]


class ClearTasks(RunCommand[tuple[TaskScope, ...]], frozen=True, kw_only=True):
    """Clear tasks of a run, so that they run again; return them. A live attempt of theirs is ended.

    `state` decides about their task stores; by default, those of tasks that had succeeded are
    deleted and all others kept. The run, if it had ended, is queued again. So is, by a clear of no
    task, a run that has ended without any, such as one that was stopped while it was queued.
    """

    role = Role.EDITOR
    touches_entries = True

    tasks: tuple[tuple[str, int | None], ...]
    """Task ids, each with one map index or all of them."""
    writer: Writer
    state: Literal["keep", "discard", "default"] = "default"

    def __post_init__(self) -> None:
        check_count(f"tasks of run `{self.run_id}`", len(self.tasks), MOST_WRITES)


class MarkTask(ScopeCommand[None], frozen=True, kw_only=True):
    """Mark a task as succeeded, failed or skipped, on behalf of a person. A live attempt of it is
    ended, and its staged writes are dropped. Raises InvalidInput where its run is external."""

    role = Role.EDITOR
    touches_entries = True

    scope: TaskScope
    state: TaskState
    writer: Writer
    clear: bool = False
    """With success: clear the task store in the same transaction."""
    reason: str = ""
    """The reason, where it was not the person's own decision."""
    unless_ended: bool = False
    """Leave a task that has ended alone."""
    all_map_indices: bool = False
    """Mark every instance of the task in its run, whatever the map index of the scope."""

    def __post_init__(self) -> None:
        force_setattr(self, "reason", self.reason[:MAX_ERROR_LENGTH])


class TakeItem(Command[bool], frozen=True):
    """Record which item a mapped instance works on; return whether it had worked on another one.

    If so, its task store is about that other item, and is discarded.
    """

    category = Category.WRITES_RESULTS
    touches_entries = True

    writer: TaskWriter
    digest: str
    """Identifies the item."""

    @property
    def subject(self) -> TaskScope:
        return self.writer.scope

    def __post_init__(self) -> None:
        if self.writer.attempt is None:
            raise InvalidInput(
                f"the item of {self.writer.scope}: the number of the attempt is missing",
                hint="give the number of the attempt that works on the item",
            )
        if not re.fullmatch("[0-9a-f]{64}", self.digest):
            raise InvalidInput(
                f"the digest of the item of {self.writer.scope} is {self.digest!r}",
                hint="give the SHA-256 of the item as 64 hexadecimal digits",
            )
