"""Advances and history, which only assets have."""

from __future__ import annotations

from holdfast import commands as c
from holdfast.model.entry import Version
from holdfast.model.rewind import choose
from holdfast.model.value import larger
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations.entries import entry_of, put, record
from holdfast.stores.sql.operations.fencing import open_scope
from holdfast.stores.sql.operations.measuring import up_to_size
from holdfast.stores.sql.operations.scopes import find, known
from holdfast.stores.sql.operations.staging import stage_advance
from holdfast.stores.sql.operations.steps import NO_LIMIT, Context, Steps
from holdfast.stores.sql.statements import entries as s
from holdfast.stores.sql.statements import history as h


def advance(context: Context, command: c.Advance) -> Steps[str]:
    owner = yield from open_scope(command.scope, command.writer)
    entry = yield from entry_of(owner, command.key)
    where = f"`{command.key}` of {command.scope}"
    standing = entry.value if entry else None
    if command.on_success:
        staged = yield from stage_advance(context, owner, command)
        return staged.value if isinstance(staged, c.Set) else larger(standing, staged.value, where)
    value = larger(standing, command.value, where)
    if value is not standing:
        yield from put(context, owner, [(command.key, value)], command.writer)
    return value


def history(context: Context, command: c.History) -> Steps[tuple[Version[str], ...]]:
    _, by, params = find(command.scope)
    before = NO_LIMIT if command.before is None else command.before
    params |= {"key": command.key, "limit": context.history_limit, "before": before}
    select = h.history(by)
    measured = s.measured(select, "value")
    found, _ = yield from up_to_size((select, params), measured, command.max_size)
    if not found:
        yield from known(command.scope)
    return tuple(rows.version(row, command.scope) for row in found)


def rewind(context: Context, command: c.Rewind) -> Steps[Version[str] | None]:
    owner = yield from open_scope(command.scope, command.writer)
    limits = {"limit": context.history_limit, "before": NO_LIMIT}
    found = yield h.history("id"), {"owner": owner.id, "key": command.key} | limits
    past = [rows.version(row, command.scope) for row in found]
    step = choose(past, command.to, f"`{command.key}` of {command.scope}")
    value = step.value if step else None
    if command.dry_run:
        return step
    if value is not None:
        yield from put(context, owner, [(command.key, value)], command.writer)
    elif past[0].value is not None:
        yield s.delete(owner.tables), {"owner": owner.id, "key": command.key}
        yield from record(context, owner, [(command.key, None)], command.writer)
    return step
