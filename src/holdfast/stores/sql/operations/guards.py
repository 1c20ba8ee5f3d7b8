"""Commands that are carried out only while an attempt is live, or a job's intent current."""

from __future__ import annotations

from typing import Any

from holdfast import command as c
from holdfast.authority import is_read
from holdfast.condition import Guard, Guarded, LiveAttempt
from holdfast.entry import TaskWriter
from holdfast.stores import refusal
from holdfast.stores.sql import request_statements as q
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations import entries
from holdfast.stores.sql.operations.scopes import check_attempt, lock_scope
from holdfast.stores.sql.operations.steps import BEGIN, Context, Lookup, Query, Steps, joined
from holdfast.value import encode


def guarded(operation_for: Lookup, context: Context, command: Guarded) -> Steps[Any]:
    guard, inner = command.guard, command.inner
    operation = operation_for(inner)
    scope = guard.writer.scope if isinstance(guard, LiveAttempt) else guard.scope
    if not is_read(inner):
        yield BEGIN
        # As a writer locks it: this one may go on to write there, which two that share a lock
        # could not.
        yield from lock_scope(scope, TaskWriter(scope))
        yield from _check(operation_for, context, guard)
        return (yield from joined(operation(context, inner)))
    if (
        isinstance(guard, LiveAttempt)
        and isinstance(inner, c.Get)
        and inner.scope == scope
        and operation is entries.get
    ):
        query = q.own_value(), {"owner": scope.ti_text, "key": inner.key}
        return (yield from _while_live(guard.writer, query))[2]
    yield from _check(operation_for, context, guard)
    return (yield from operation(context, inner))


def _check(operation_for: Lookup, context: Context, guard: Guard) -> Steps[None]:
    if isinstance(guard, LiveAttempt):
        query = q.attempts(), {"owner": guard.writer.scope.ti_text}
        yield from _while_live(guard.writer, query)
        return
    get = c.Get(guard.scope, guard.key)
    if (yield from joined(operation_for(get)(context, get))) != encode(guard.intent):
        raise refusal.not_current(guard)


def _while_live(writer: TaskWriter, query: Query) -> Steps[rows.Row]:
    """The row, which begins with the newest attempt and the live one, if the writer is that."""
    found = yield query
    if not found:
        raise refusal.unknown_task(writer.scope)
    newest, live, *_ = found[0]
    check_attempt(writer, newest, live)
    return found[0]  # type: ignore[no-any-return]
