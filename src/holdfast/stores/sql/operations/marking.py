"""Runs and task instances that people end: as succeeded, failed or skipped.

The rows of the task instances are locked, so an attempt that succeeds meanwhile has either ended
before, with its staged writes and events, or is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast import commands as c
from holdfast.errors import InvalidInput
from holdfast.model.entry import TaskWriter, Writer
from holdfast.model.run import Ending, Outcome, Run, RunKind, RunState, TaskState
from holdfast.model.scope import TaskScope
from holdfast.stores import refusals
from holdfast.stores.sql.operations.attempts import Empty, close_attempts, settled
from holdfast.stores.sql.operations.entries import empty as empty_entries
from holdfast.stores.sql.operations.fencing import Owner, fence
from holdfast.stores.sql.operations.runs import LockedRun, get_run, lock_run
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps, each
from holdfast.stores.sql.statements import runs as s
from holdfast.stores.sql.statements.scope_tables import TASKS

_MARKS = (TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED)


class _LockedTask(NamedTuple):
    owner: Owner
    state: TaskState | None
    begun: bool


def mark_task(context: Context, command: c.MarkTask, empty: Empty = empty_entries) -> Steps[None]:
    scope, state = command.scope, command.state
    if state not in _MARKS:
        raise InvalidInput(
            f"{scope} cannot be marked `{state}`", hint="mark it success, failed or skipped"
        )
    run = yield from _begin(scope.dag_id, scope.run_id, command.writer)
    named: dict[str, Any] = {"task_id": scope.task_id}
    if not command.all_map_indices:
        named["map_index"] = scope.map_index
    tasks = yield from _lock_tasks(scope.dag_id, scope.run_id, run, named)
    if not tasks:
        raise refusals.unknown_task(scope)
    if command.unless_ended:
        tasks = [one for one in tasks if one.state is None or not one.state.ended]
    reason = command.reason or f"marked {state} by {command.writer}"
    marked = Ending(outcome=Outcome.STOPPED, state=state, error=reason)
    yield from _end_tasks(context, tasks, marked, command, empty)


def mark_run(context: Context, command: c.MarkRun, empty: Empty = empty_entries) -> Steps[Run]:
    dag_id, run_id, state = command.dag_id, command.run_id, command.state
    if not state.ended:
        raise InvalidInput(
            f"run {dag_id}/{run_id} cannot be marked `{state}`", hint="mark it success or failed"
        )
    run = yield from _begin(dag_id, run_id, command.writer)
    if command.stop and RunState(run.state).ended:
        raise refusals.run_ended(dag_id, run_id, run.state)
    if run.state != state:
        tasks = yield from _lock_tasks(dag_id, run_id, run, {})
        unfinished = [one for one in tasks if one.state is not None and not one.state.ended]
        reason = f"{'stopped' if command.stop else f'marked {state}'} by {command.writer}"
        end = Ending(
            outcome=Outcome.STOPPED, state=TaskState(state.value), error=f"its run was {reason}"
        )
        yield from _end_tasks(context, unfinished, end, command, empty)
        error = reason if state is RunState.FAILED else None
        yield s.mark_run(), {"run": run.id, "end": state.value, "reason": error}
    return (yield from get_run(context, c.GetRun(dag_id, run_id)))


def _begin(dag_id: str, run_id: str, writer: Writer) -> Steps[LockedRun]:
    """Begin a transaction, and lock the run. Raise InvalidInput if it is external, and StaleAttempt
    if the writer may not write."""
    yield BEGIN
    run = yield from lock_run(dag_id, run_id)
    if run.kind == RunKind.EXTERNAL:
        raise refusals.run_external(dag_id, run_id)
    if isinstance(writer, TaskWriter):
        yield from fence(writer)
    return run


def _lock_tasks(
    dag_id: str, run_id: str, run: LockedRun, named: dict[str, Any]
) -> Steps[list[_LockedTask]]:
    found = yield s.lock_tasks(frozenset(named)), named | {"run": run.id}
    return [
        _LockedTask(
            Owner(TASKS, ti_id, revision, TaskScope(dag_id, run_id, task_id, map_index)),
            None if state is None else TaskState(state),
            attempt > 0,
        )
        for ti_id, revision, task_id, map_index, state, attempt in found
    ]


def _end_tasks(
    context: Context,
    tasks: Sequence[_LockedTask],
    ending: Ending,
    command: c.MarkTask | c.MarkRun,
    empty: Empty,
) -> Steps[None]:
    """End the live attempts of the tasks, and give all of them the state of the ending."""
    succeeded = ending.state is TaskState.SUCCESS
    for task in tasks:
        if command.clear and succeeded:
            yield from empty(context, task.owner, command.writer)
        if task.begun:
            yield from close_attempts(task.owner, ending)
    if succeeded:
        ending = msgspec.structs.replace(ending, error="")
    yield from each(s.end_task(), [settled(one.owner, ending, 0, 0) for one in tasks])
