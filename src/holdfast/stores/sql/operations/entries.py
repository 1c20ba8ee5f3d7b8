"""Reading and writing entries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from holdfast import commands as c
from holdfast.model.entry import Entry, TaskWriter, Writer
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import is_reference
from holdfast.stores import refusals
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations.fencing import Owner, count_write, open_map_indices, open_scope
from holdfast.stores.sql.operations.purge_queue import claim_objects
from holdfast.stores.sql.operations.scopes import find, known
from holdfast.stores.sql.operations.staging import seen, stage, staged_for
from holdfast.stores.sql.operations.steps import Context, Steps
from holdfast.stores.sql.statements import entries as s
from holdfast.stores.sql.statements import history as h
from holdfast.stores.sql.statements.scope_tables import ASSETS


def get(context: Context, command: c.Get) -> Steps[str | None]:
    tables, by, params = find(command.scope)
    params["key"] = command.key
    if command.reader is not None and tables is ASSETS:
        entry = yield from get_entry(context, command)
        return entry.value if entry else None
    found = yield s.get(tables, by), params
    if found:
        return found[0][0]  # type: ignore[no-any-return]
    yield from known(command.scope)
    return None


def get_entry(context: Context, command: c.Get | c.GetEntry) -> Steps[Entry[str] | None]:
    tables, by, params = find(command.scope)
    params["key"] = command.key
    found = yield s.entry(tables, by), params
    entry = rows.entry(found[0], command.scope) if found else None
    if command.reader is not None and isinstance(command.scope, AssetScope):
        staged = yield from staged_for(command.scope, command.reader, command.key)
        for row in staged:
            entry = seen(entry, row, command.reader)
    if entry is None:
        yield from known(command.scope)
    return entry


def put(
    context: Context,
    owner: Owner,
    values: Sequence[tuple[str, str]],
    writer: Writer,
    expires_at: datetime | None = None,
) -> Steps[int]:
    """Write these keys as one version."""
    common = {
        "owner": owner.id,
        "version": owner.revision + 1,
        "expires_at": rows.micros(expires_at),
        "writer": rows.writer_column(writer, owner.scope),
    }
    entries = [{**common, "key": key, "value": value} for key, value in values]
    yield s.upsert(owner.tables, type(context.dialect)), entries
    return (yield from record(context, owner, values, writer))


def record(
    context: Context, owner: Owner, values: Sequence[tuple[str, str | None]], writer: Writer
) -> Steps[int]:
    """Count the write as the scope's next version, and add it to the history if there is one."""
    version = yield from count_write(owner)
    if owner.tables.history is not None:
        column = rows.writer_column(writer, owner.scope)
        common = {"owner": owner.id, "version": version, "writer": column}
        steps = [{**common, "key": key, "value": value} for key, value in values]
        yield h.add_history(), steps
        yield h.trim_history(), [{**step, "kept": context.history_limit} for step in steps]
    return version


def entry_of(owner: Owner, key: str) -> Steps[Entry[str] | None]:
    tables = owner.tables
    found = yield s.entry(tables, tables.id.name), {"owner": owner.id, "key": key}
    return rows.entry(found[0], owner.scope) if found else None


def check_version(owner: Owner, key: str, if_version: int | None) -> Steps[None]:
    if if_version is None:
        return
    entry = yield from entry_of(owner, key)
    current = entry.version if entry else 0
    if current != if_version:
        raise refusals.conflict(owner.scope, key, if_version, current)


def set_(context: Context, command: c.Set) -> Steps[int]:
    scope, writer = command.scope, command.writer
    shortcut = context.dialect.set_in_one_statement()
    params = plain(command)
    if shortcut is not None and params is not None:
        written = yield shortcut, params
        if written:
            return written[0][0]  # type: ignore[no-any-return]
        # Refused; the long way raises the reason.
    owner = yield from open_scope(scope, writer)
    value = [(command.key, command.value)]
    yield from claim_objects(scope, value, command.reservation)
    if command.on_success:
        yield from stage(context, owner, command)
        return owner.revision
    yield from check_version(owner, command.key, command.if_version)
    return (yield from put(context, owner, value, writer, command.expires_at))


def plain(command: c.Set) -> dict[str, Any] | None:
    """Return the parameters of `set_in_one_statement`; None if the write is not that simple."""
    scope, writer = command.scope, command.writer
    if not isinstance(scope, TaskScope) or command.if_version is not None:
        return None
    if is_reference(command.value):
        return None
    if isinstance(writer, TaskWriter) and writer.scope != scope:
        return None
    return {
        "owner": scope.ti_text,
        "key": command.key,
        "value": command.value,
        "attempt": writer.attempt if isinstance(writer, TaskWriter) else None,
        "expires_at": rows.micros(command.expires_at),
        "writer": rows.writer_column(writer, scope),
    }


def set_many(context: Context, command: c.SetMany) -> Steps[int]:
    owner = yield from open_scope(command.scope, command.writer)
    if not command.values:
        return owner.revision
    values = list(dict(command.values).items())
    yield from claim_objects(command.scope, values, command.reservation)
    return (yield from put(context, owner, values, command.writer, command.expires_at))


def delete(context: Context, command: c.Delete) -> Steps[None]:
    owner = yield from open_scope(command.scope, command.writer)
    gone = yield s.delete(owner.tables), {"owner": owner.id, "key": command.key}
    if gone:
        yield from record(context, owner, [(command.key, None)], command.writer)


def clear(context: Context, command: c.Clear) -> Steps[None]:
    scope, writer = command.scope, command.writer
    if not command.all_map_indices or isinstance(scope, AssetScope):
        owner = yield from open_scope(scope, writer)
        yield from empty(context, owner, writer)
        return
    for owner in (yield from open_map_indices(scope, writer)):
        yield from empty(context, owner, writer)


def empty(context: Context, owner: Owner, writer: Writer) -> Steps[None]:
    keys = []
    if owner.tables.history is not None:
        keys = yield s.keys(owner.tables), {"owner": owner.id}
    gone = yield s.delete_all(owner.tables), {"owner": owner.id}
    if gone:
        yield from record(context, owner, [(key, None) for (key,) in keys], writer)
