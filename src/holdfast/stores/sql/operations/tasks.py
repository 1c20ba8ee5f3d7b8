"""Task instances: listed, changed, and cleared by users."""

from __future__ import annotations

from typing import Any

from holdfast import commands as c
from holdfast.model.run import (
    AttemptInfo,
    Ending,
    Outcome,
    RunKind,
    RunState,
    TaskInstance,
    TaskState,
)
from holdfast.model.scope import TaskScope
from holdfast.stores import refusals
from holdfast.stores.sql import run_rows
from holdfast.stores.sql.operations.attempts import Empty, close_attempts
from holdfast.stores.sql.operations.entries import empty as empty_entries
from holdfast.stores.sql.operations.fencing import open_scope
from holdfast.stores.sql.operations.runs import (
    choices,
    lock_held_run,
    lock_run,
)
from holdfast.stores.sql.operations.scopes import known
from holdfast.stores.sql.operations.steps import BEGIN, Context, Query, Steps, each, window
from holdfast.stores.sql.statements import runs as s


def task_instances_query(command: c.ListTaskInstances) -> Query:
    columns = ("dag_id", "run_id", "task_id", "map_index")
    named = {name: getattr(command, name) for name in columns}
    params: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    select = s.task_instances(frozenset(params), len(command.states))
    params |= choices("state", command.states)
    return select, params | window(command.limit, command.offset)


def list_task_instances(
    context: Context, command: c.ListTaskInstances
) -> Steps[tuple[TaskInstance, ...]]:
    found = yield task_instances_query(command)
    return tuple(run_rows.task_instance(row) for row in found)


def list_attempts(context: Context, command: c.ListAttempts) -> Steps[tuple[AttemptInfo, ...]]:
    found = yield s.attempts(), {"owner": command.scope.ti_text}
    if not found:
        yield from known(command.scope)
    return tuple(run_rows.attempt(row, command.scope) for row in found)


def change_tasks(context: Context, command: c.ChangeTasks) -> Steps[None]:
    yield BEGIN
    run = yield from lock_held_run(command.dag_id, command.run_id, command.process)
    changes = [
        {
            "owner": _scope(command, change.task_id, change.map_index).ti_text,
            "run": run,
            "task_id": change.task_id,
            "map_index": change.map_index,
            "change": change.state.value,
            "ended": int(change.state.ended),
            "reason": change.error or None,
        }
        for change in command.changes
    ]
    yield from each(s.add_task_instance(type(context.dialect)), changes)
    yield from each(s.change_task(), changes)


def clear_tasks(
    context: Context, command: c.ClearTasks, empty: Empty = empty_entries
) -> Steps[tuple[TaskScope, ...]]:
    """Clear task instances, so that they run again; `empty` deletes the entries of a task store."""
    yield BEGIN
    run = yield from lock_run(command.dag_id, command.run_id)
    if run.kind == RunKind.EXTERNAL:
        raise refusals.run_external(command.dag_id, command.run_id)
    cleared: dict[TaskScope, None] = {}
    for task_id, map_index in command.tasks:
        found = yield s.map_indices_of_task(), {"run": run.id, "task_id": task_id}
        for (index,) in found:
            if map_index in (None, index):
                cleared[_scope(command, task_id, index)] = None
    for scope in sorted(cleared, key=lambda scope: scope.ti_text):
        yield from _clear(context, scope, command, empty)
    if not RunState(run.state).ended:
        return tuple(cleared)
    if cleared or not (command.tasks or (yield s.lock_tasks(frozenset()), {"run": run.id})):
        yield s.queue_run(), {"run": run.id}
    return tuple(cleared)


def _clear(context: Context, scope: TaskScope, command: c.ClearTasks, empty: Empty) -> Steps[None]:
    owner = yield from open_scope(scope, command.writer)
    task = {"owner": scope.ti_text}
    [(state, *_)] = yield s.task_state(), task
    succeeded = state == TaskState.SUCCESS
    if command.state == "discard" or (command.state == "default" and succeeded):
        yield from empty(context, owner, command.writer)
    reason = f"cleared by {command.writer}"
    stopped = Ending(outcome=Outcome.STOPPED, state=TaskState.SCHEDULED, error=reason)
    yield from close_attempts(owner, stopped)
    yield s.drop_results(), task
    yield s.clear_task(), task


def take_item(context: Context, command: c.TakeItem, empty: Empty = empty_entries) -> Steps[bool]:
    owner = yield from open_scope(command.writer.scope, command.writer)
    found = yield s.mapped_item(), {"owner": owner.id}
    if found and found[0][0] == command.digest:
        return False
    if found:
        yield from empty(context, owner, command.writer)
    item = {"owner": owner.id, "digest": command.digest}
    yield s.set_mapped_item(type(context.dialect)), item
    return bool(found)


def _scope(command: c.ChangeTasks | c.ClearTasks, task_id: str, map_index: int) -> TaskScope:
    return TaskScope(command.dag_id, command.run_id, task_id, map_index)
