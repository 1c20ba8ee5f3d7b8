"""Writes that wait for their attempt's success, and how that attempt sees them."""

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
from holdfast.stores.sql.operations.measuring import up_to_size
from holdfast.stores.sql.operations.scopes import Owner, find
from holdfast.stores.sql.operations.steps import NO_LIMIT, Context, Steps
from holdfast.stores.sql.statements import entries as s

LARGEST_MERGE = 8
"""Pages of entries that are read at once, to lay staged writes over them."""


def staged_for(
    scope: AssetScope | None,
    reader: TaskWriter,
    key: str | None = None,
    max_size: int | None = None,
) -> Steps[Sequence[rows.Row]]:
    """What the reader has staged: for an asset or for all, for one key or for all. ValueTooLarge
    where that has more than `max_size` characters."""
    by: str | None = None
    params: dict[str, Any] = {}
    if scope is not None:
        _, by, params = find(scope)
    params |= {"ti_id": reader.scope.ti_text, "attempt": reader.attempt, "key": key}
    query = s.staged(by, key is not None), params | {"limit": NO_LIMIT}
    found, more = yield from up_to_size(query, s.measured(query[0], "value"), max_size)
    if more:
        raise too_large_to_merge(max_size)
    return found


def too_large_to_merge(max_size: int | None) -> ValueTooLarge:
    """The error for a list with staged writes in it, which cannot be read in parts."""
    return ValueTooLarge(
        f"the values of the assets, with staged writes, have more than {max_size:,} characters",
        hint="read the keys one by one with get(), or list them after the attempt",
    )


def staged_by(writer: TaskWriter) -> Steps[list[rows.Row]]:
    """All that the live attempt has staged: asset, key, value, whether it advances, if_version."""
    _, _, params = find(writer.scope)
    found = yield s.staged_of_task(), params
    return found  # type: ignore[no-any-return]


def seen(entry: Entry[str] | None, staged: rows.Row, reader: TaskWriter) -> Entry[str]:
    """What the attempt reads: its staged write over the entry."""
    key, value, advances, updated_at = staged[:4]
    at = rows.instant(updated_at)
    return overlaid(entry, key, value, at, reader, advances=advances)


def bases(command: c.List) -> c.List:
    """What has to be listed to lay staged writes over it: all, or a page, to go on behind an
    entry. Filters come later, as a staged write may pass where its entry does not."""
    limit = None
    if command.after is not None and command.updated_since is None and command.limit is not None:
        limit = command.offset + command.limit
    prefix = command.prefix if limit is not None else ""
    return c.List(
        command.where, prefix, limit=limit, after=command.after, max_size=size_of_merge(command)
    )


def size_of_merge(command: c.List) -> int | None:
    """How many characters may be read, to lay staged writes over entries."""
    return None if command.max_size is None else LARGEST_MERGE * command.max_size


def merged(page: Page, staged: Sequence[rows.Row], command: c.List) -> Page:
    """All entries that are listed, with the reader's staged writes laid over them, as the command
    selects them."""
    assert command.reader is not None
    entries: dict[tuple[StoreScope, str], Entry[str]]
    entries = {(found.scope, found.entry.key): found.entry for found in page.found}
    for row in staged:
        place = AssetScope(*row[4:7]), row[0]
        entries[place] = seen(entries.get(place), row, command.reader)
    since = command.updated_since
    found = [
        Found(scope, entry)
        for (scope, key), entry in sorted(entries.items(), key=lambda item: c.place(*item[0]))
        if key.startswith(command.prefix) and (since is None or entry.updated_at >= since)
    ]
    return c.page_of(found, command)


def stage(context: Context, owner: Owner, command: c.Set | c.Advance) -> Steps[None]:
    """Keep the write for the attempt's success."""
    assert isinstance(command.writer, TaskWriter)
    params = {
        "ti_id": command.writer.scope.ti_text,
        "asset_id": owner.id,
        "key": command.key,
        "value": command.value,
        "advances": isinstance(command, c.Advance),
        "if_version": command.if_version if isinstance(command, c.Set) else None,
    }
    yield s.stage(type(context.dialect)), params


def stage_advance(context: Context, owner: Owner, command: c.Advance) -> Steps[c.Set | c.Advance]:
    """Stage it together with what is staged for its key: a staged `set` goes on as a `set`.

    What stands is left out of it until success, because it may yet be moved back.
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
