"""Staged writes, and how their attempt reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast import commands as c
from holdfast.errors import ValueTooLarge
from holdfast.model.entry import Entry, Found, Page, TaskWriter
from holdfast.model.scope import AssetScope, StoreScope
from holdfast.model.staged import overlaid
from holdfast.model.value import larger
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations.fencing import Owner
from holdfast.stores.sql.operations.measuring import up_to_size
from holdfast.stores.sql.operations.scopes import find
from holdfast.stores.sql.operations.steps import NO_LIMIT, Context, Steps
from holdfast.stores.sql.statements import entries as s
from holdfast.stores.sql.statements import staging as g

LARGEST_MERGE = 8
"""Number of pages of entries that are read at once, to overlay staged writes on them."""


def staged_for(
    scope: AssetScope | None,
    reader: TaskWriter,
    key: str | None = None,
    max_size: int | None = None,
) -> Steps[Sequence[rows.Row]]:
    """Return the writes that the reader has staged: for an asset or for all, for one key or for
    all. Raise ValueTooLarge if they have more than `max_size` characters."""
    by: str | None = None
    params: dict[str, Any] = {}
    if scope is not None:
        _, by, params = find(scope)
    params |= {"ti_id": reader.scope.ti_text, "attempt": reader.attempt, "key": key}
    query = g.staged(by, key is not None), params | {"limit": NO_LIMIT}
    found, more = yield from up_to_size(query, s.measured(query[0], "value"), max_size)
    if more:
        raise too_large_to_merge(max_size)
    return found


def too_large_to_merge(max_size: int | None) -> ValueTooLarge:
    """Return the error for a list with staged writes in it, which cannot be read in parts."""
    return ValueTooLarge(
        f"the values of the assets, including staged writes, exceed {max_size:,} characters",
        hint="read the keys one by one with get(), or list them after the attempt",
    )


def staged_by(writer: TaskWriter) -> Steps[list[rows.Row]]:
    """Return all writes staged for the task: asset, key, value, whether it advances, if_version."""
    _, _, params = find(writer.scope)
    found = yield g.staged_of_task(), params
    return found  # type: ignore[no-any-return]


def seen(entry: Entry[str] | None, staged: rows.Row, reader: TaskWriter) -> Entry[str]:
    """Return the entry as the attempt reads it: with its staged write on top."""
    key, value, advances, updated_at = staged[:4]
    at = rows.instant(updated_at)
    return overlaid(entry, key, value, at, reader, advances=advances)


def bases(command: c.List) -> c.List:
    """Return the listing on which to overlay staged writes: everything, or one page if it continues
    after an entry. Filters are applied later, since a staged write may pass where its entry does
    not."""
    limit = None
    if command.after is not None and command.updated_since is None and command.limit is not None:
        limit = command.offset + command.limit
    prefix = command.prefix if limit is not None else ""
    return c.List(
        command.where, prefix, limit=limit, after=command.after, max_size=size_of_merge(command)
    )


def size_of_merge(command: c.List) -> int | None:
    """Return how many characters may be read to overlay staged writes on entries."""
    return None if command.max_size is None else LARGEST_MERGE * command.max_size


def merged(page: Page, staged: Sequence[rows.Row], command: c.List) -> Page:
    """Return the page that the command selects, with the reader's staged writes on top."""
    assert command.reader is not None
    entries: dict[tuple[StoreScope, str], Entry[str]]
    entries = {(found.scope, found.entry.key): found.entry for found in page.found}
    for row in staged:
        at = AssetScope(*row[4:7]), row[0]
        entries[at] = seen(entries.get(at), row, command.reader)
    since = command.updated_since
    found = [
        Found(scope, entry)
        for (scope, key), entry in sorted(entries.items(), key=lambda item: c.sort_key(*item[0]))
        if key.startswith(command.prefix) and (since is None or entry.updated_at >= since)
    ]
    return c.page_of(found, command)


def stage(context: Context, owner: Owner, command: c.Set | c.Advance) -> Steps[None]:
    """Stage the write until the attempt succeeds."""
    assert isinstance(command.writer, TaskWriter)
    params = {
        "ti_id": command.writer.scope.ti_text,
        "asset_id": owner.id,
        "key": command.key,
        "value": command.value,
        "advances": isinstance(command, c.Advance),
        "if_version": command.if_version if isinstance(command, c.Set) else None,
    }
    yield g.stage(type(context.dialect)), params


def stage_advance(context: Context, owner: Owner, command: c.Advance) -> Steps[c.Set | c.Advance]:
    """Stage the advance, merged with the write staged for its key: a staged `set` stays a `set`.

    The current value is left out of it until success, because it may yet be moved back.
    """
    assert isinstance(command.writer, TaskWriter)
    staged: c.Set | c.Advance = command
    for asset_id, key, value, advances, if_version in (yield from staged_by(command.writer)):
        if (asset_id, key) == (owner.id, command.key):
            most = larger(value, command.value, f"`{key}` of {command.scope}")
            if advances:
                staged = msgspec.structs.replace(command, value=most)
            else:
                staged = c.Set(
                    *(command.scope, key, most, command.writer),
                    if_version=if_version,
                    on_success=True,
                )
    yield from stage(context, owner, staged)
    return staged
