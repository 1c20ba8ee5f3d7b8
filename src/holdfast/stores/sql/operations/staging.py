"""Writes that wait for their attempt's success, and how that attempt sees them."""

from __future__ import annotations

from collections.abc import Iterable

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
    params |= {"ti_id": str(reader.scope.ti_id), "attempt": reader.attempt, "key": key}
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


def stage(
    context: Context,
    owner: Owner,
    command: c.Set | c.Advance,
    value: str | None = None,
    before: Iterable[rows.Row] = (),
) -> Steps[None]:
    """Keep the write for the attempt's success. Over a staged `set`, an `advance` is a `set`."""
    assert isinstance(command.writer, TaskWriter)
    params = {
        "ti_id": str(command.writer.scope.ti_id),
        "asset_id": owner.id,
        "key": command.key,
        "value": command.value if value is None else value,
        "advances": isinstance(command, c.Advance),
        "if_version": command.if_version if isinstance(command, c.Set) else None,
    }
    if any(not advances for _, _, advances, _ in before):
        yield s.restage(), params
    else:
        yield s.stage(type(context.dialect)), params
