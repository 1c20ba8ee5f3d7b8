"""Commands guarded by a live attempt, by a job's current intent, or by the newest watch."""

from __future__ import annotations

from typing import Any

from holdfast import commands as c
from holdfast.commands import Guard, Guarded, LiveAttempt, LiveWatch
from holdfast.model.entry import TaskWriter
from holdfast.model.run import TaskState
from holdfast.model.value import encode
from holdfast.stores import refusals
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations import entries
from holdfast.stores.sql.operations.fencing import check_attempt, lock_scope
from holdfast.stores.sql.operations.steps import BEGIN, Context, Lookup, Query, Steps
from holdfast.stores.sql.operations.watches import watch_params
from holdfast.stores.sql.statements import events as e
from holdfast.stores.sql.statements import requests as q


def guarded(operation_for: Lookup, context: Context, command: Guarded) -> Steps[Any]:
    guard, inner = command.guard, command.inner
    operation = operation_for(inner)
    if not inner.reads:
        yield BEGIN
        if not isinstance(guard, LiveWatch):
            scope = guard.writer.scope if isinstance(guard, LiveAttempt) else guard.scope
            # With a writer's lock, because the command may go on to write there, which two shared
            # locks would not allow.
            yield from lock_scope(scope, TaskWriter(scope))
    elif (
        isinstance(guard, LiveAttempt)
        and isinstance(inner, c.Get)
        and inner.scope == guard.writer.scope
        and operation is entries.get
    ):
        query = q.own_value(), {"owner": inner.scope.ti_text, "key": inner.key}
        return (yield from _while_live(guard.writer, query, reading=True))[2]
    yield from _check(operation_for, context, guard, inner.reads)
    return (yield from operation(context, inner))


def _check(operation_for: Lookup, context: Context, guard: Guard, reading: bool) -> Steps[None]:
    if isinstance(guard, LiveAttempt):
        query = q.attempts(), {"owner": guard.writer.scope.ti_text}
        yield from _while_live(guard.writer, query, reading)
        return
    if isinstance(guard, LiveWatch):
        found = yield e.lock_watcher(), (yield from watch_params(guard.watch))
        if not found or found[0][0] != guard.watch.number:
            raise refusals.watch_lost(guard.watch, reading)
        return
    get = c.Get(guard.scope, guard.key)
    if (yield from operation_for(get)(context, get)) != encode(guard.intent):
        raise refusals.not_current(guard, reading)
    for (state,) in (yield q.state(), {"owner": guard.scope.ti_text}):
        if state is not None and TaskState(state).ended:
            raise refusals.job_over(guard, reading)


def _while_live(writer: TaskWriter, query: Query, reading: bool) -> Steps[rows.Row]:
    """Return the row, which begins with the newest attempt and the live one. Raise StaleAttempt if
    the writer is not the live attempt."""
    found = yield query
    if not found:
        raise refusals.unknown_task(writer.scope)
    newest, live, *_ = found[0]
    check_attempt(writer, newest, live, reading)
    return found[0]  # type: ignore[no-any-return]
