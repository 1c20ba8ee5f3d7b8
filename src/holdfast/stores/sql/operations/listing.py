"""Listing entries, of one scope or of many."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import command as c
from holdfast.entry import Found, Page
from holdfast.scope import AssetScope, StoreScope, TaskScope
from holdfast.stores.sql import rows
from holdfast.stores.sql import statements as s
from holdfast.stores.sql.operations.scopes import find, known
from holdfast.stores.sql.operations.staging import overlaid, staged_for
from holdfast.stores.sql.operations.steps import NO_LIMIT, Context, Steps


def list_(context: Context, command: c.List) -> Steps[Page]:
    where = command.where
    conditions: dict[str, Any] = {}
    by = None
    shelf = s.ASSETS if isinstance(where, AssetScope | c.AssetFilter) else s.TASKS
    if isinstance(where, TaskScope | AssetScope):
        yield from known(where)
        shelf, by, owner = find(where)
    elif isinstance(where, c.TaskFilter):
        conditions |= {k: v for k, v in msgspec.structs.asdict(where).items() if v is not None}
    if command.prefix:
        conditions["prefix"] = command.prefix
    if command.updated_since is not None:
        conditions["updated_since"] = rows.micros(command.updated_since)
    if command.expiring_before is not None:
        if shelf is s.ASSETS:
            return Page((), 0)
        conditions["expiring_before"] = rows.micros(command.expiring_before)
    names = frozenset(conditions)
    params = conditions | (owner if by else {})

    overlay: list[rows.Row] = []
    if command.reader is not None and isinstance(where, AssetScope):
        overlay = yield from staged_for(where, command.reader, None)
    if overlay:
        everything = msgspec.structs.replace(command, reader=None, limit=None, offset=0)
        page = yield from list_(context, everything)
        return merged(page, overlay, command)

    limit = NO_LIMIT if command.limit is None else command.limit
    window = {"limit": limit, "offset": command.offset}
    found = yield s.listing(shelf, by, names, count=False), params | window
    total = command.offset + len(found)
    if len(found) == limit or (command.offset and not found):
        total = (yield s.listing(shelf, by, names, count=True), params)[0][0]
    return Page(tuple(_found(shelf, row) for row in found), total)


def _found(shelf: s.Shelf, row: rows.Row) -> Found:
    scope: StoreScope
    scope = TaskScope(*row[6:10]) if shelf is s.TASKS else AssetScope(row[6], row[7], row[8])
    return Found(scope, rows.entry(row, scope))


def merged(page: Page, overlay: list[rows.Row], command: c.List) -> Page:
    """A page of an asset's entries with the reader's staged writes laid over them."""
    assert command.reader is not None
    assert isinstance(command.where, AssetScope)
    entries = {found.entry.key: found.entry for found in page.found}
    for row in overlay:
        if row[0].startswith(command.prefix):
            entries[row[0]] = overlaid(entries.get(row[0]), row, command.reader, command.where)
    scope = page.found[0].scope if page.found else command.where
    found = tuple(Found(scope, entry) for _, entry in sorted(entries.items()))
    stop = None if command.limit is None else command.offset + command.limit
    return Page(found[command.offset : stop], len(found))
