"""Listing of entries, of one scope or of many."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import commands as c
from holdfast.model.entry import Found, Page
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations.measuring import up_to_size
from holdfast.stores.sql.operations.scopes import find, known
from holdfast.stores.sql.operations.staging import (
    bases,
    merged,
    size_of_merge,
    staged_for,
    too_large_to_merge,
)
from holdfast.stores.sql.operations.steps import NO_LIMIT, Context, Steps
from holdfast.stores.sql.statements import entries as s
from holdfast.stores.sql.statements.scope_tables import ASSETS, TASKS, ScopeTables


def list_(context: Context, command: c.List) -> Steps[Page]:
    where = command.where
    conditions: dict[str, Any] = {}
    by: str | None = None
    owner: dict[str, Any] = {}
    if isinstance(where, TaskScope | AssetScope):
        yield from known(where)
        _, by, owner = find(where)
    tables = TASKS
    if isinstance(where, AssetScope | c.AssetFilter):
        tables = ASSETS
        if command.expiring_before is not None:
            return Page((), 0)
        if command.reader is not None:
            asset = where if isinstance(where, AssetScope) else None
            most = size_of_merge(command)
            staged = yield from staged_for(asset, command.reader, max_size=most)
            if staged:
                page = yield from list_(context, bases(command))
                if page.more:
                    raise too_large_to_merge(most)
                return merged(page, staged, command)
    elif isinstance(where, c.TaskFilter):
        conditions |= {k: v for k, v in msgspec.structs.asdict(where).items() if v is not None}
    if command.prefix:
        conditions["prefix"] = command.prefix
    if command.updated_since is not None:
        conditions["updated_since"] = rows.micros(command.updated_since)
    if command.expiring_before is not None:
        conditions["expiring_before"] = rows.micros(command.expiring_before)
    if command.after is not None:
        conditions["after"] = True
    names = frozenset(conditions)
    params = conditions | owner | _bounds(command) | {"prefix_length": len(command.prefix)}
    limit = NO_LIMIT if command.limit is None else command.limit
    window = {"limit": limit, "offset": command.offset}
    select = s.listing(tables, by, names, count=False)
    found, more = yield from up_to_size(
        (select, params | window), s.measured(select, "value"), command.max_size
    )
    total = command.offset + len(found)
    if command.after is not None:
        total = len(found)
    elif more or len(found) == limit or (command.offset and not found):
        total = (yield s.listing(tables, by, names, count=True), params)[0][0]
    return Page(tuple(_found(tables, row) for row in found), total, more)


def _bounds(command: c.List) -> dict[str, Any]:
    behind = c.sort_key(*command.after) if command.after else ()
    return {f"after_{number}": bound for number, bound in enumerate(reversed(behind))}


def _found(tables: ScopeTables, row: rows.Row) -> Found:
    scope: StoreScope
    scope = TaskScope(*row[6:10]) if tables is TASKS else AssetScope(row[6], row[7], row[8])
    return Found(scope, rows.entry(row, scope))
