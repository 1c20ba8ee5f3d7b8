"""Writes that wait for their attempt's success, and how that attempt sees them."""

from __future__ import annotations

import msgspec

from holdfast import command as c
from holdfast.entry import Entry, TaskWriter, signature
from holdfast.scope import AssetScope
from holdfast.stores.sql import rows
from holdfast.stores.sql import statements as s
from holdfast.stores.sql.operations.scopes import Owner, find
from holdfast.stores.sql.operations.steps import Context, Steps
from holdfast.value import larger


def staged_for(scope: AssetScope, reader: TaskWriter, key: str | None) -> Steps[list[rows.Row]]:
    _, by, params = find(scope)
    params |= {"ti_id": reader.scope.ti_text, "attempt": reader.attempt, "key": key}
    found = yield s.staged(by, key is not None), params
    return found  # type: ignore[no-any-return]


def staged_by(writer: TaskWriter) -> Steps[list[rows.Row]]:
    """All that the live attempt has staged: asset, key, value, whether it advances, if_version."""
    _, _, params = find(writer.scope)
    found = yield s.staged_of_task(), params
    return found  # type: ignore[no-any-return]


def overlaid(
    entry: Entry[str] | None, staged: rows.Row, reader: TaskWriter, scope: AssetScope
) -> Entry[str]:
    """What stands once the staged write has taken effect."""
    key, value, advances, updated_at = staged
    if advances:
        value = larger(entry.value if entry else None, value, f"`{key}` of {scope}")
    version = entry.version if entry else 0
    return Entry(key, value, version, rows.instant(updated_at), signature(reader), staged=True)


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
