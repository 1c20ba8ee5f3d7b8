"""Effect of an attempt's staged writes and events on its success."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeAlias

from holdfast.model.entry import TaskWriter
from holdfast.model.run import (
    EmittedEvent,
)
from holdfast.model.scope import AssetScope
from holdfast.model.value import HELD_TEXT, larger
from holdfast.stores import refusals
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations import events
from holdfast.stores.sql.operations.entries import check_version, entry_of, put
from holdfast.stores.sql.operations.fencing import lock_scope
from holdfast.stores.sql.operations.scopes import resolve
from holdfast.stores.sql.operations.staging import staged_by
from holdfast.stores.sql.operations.steps import Context, Steps

Apply: TypeAlias = Callable[[Context, int, list[rows.Row], TaskWriter], Steps[None]]
"""Function that applies the staged writes to one asset."""


def apply_staged(
    context: Context, asset_id: int, staged: list[rows.Row], writer: TaskWriter
) -> Steps[None]:
    """Apply the staged writes to one asset as one version of it."""
    asset = yield from resolve(AssetScope(asset_id))
    owner = yield from lock_scope(asset, writer)
    values = []
    for _, key, value, advances, if_version in staged:
        if not advances:
            yield from check_version(owner, key, if_version)
        else:
            entry = yield from entry_of(owner, key)
            standing = entry.value if entry else None
            value = larger(standing, value, f"`{key}` of {asset}")
            if value is standing:
                continue
        values.append((key, value))
    if values:
        yield from put(context, owner, values, writer)


def take_effect(
    context: Context, writer: TaskWriter, emitted: Sequence[EmittedEvent], apply: Apply
) -> Steps[None]:
    """Apply the staged writes and record the events: asset by asset, in the common lock order."""
    staged = {
        asset_id: list(writes)
        for asset_id, writes in groupby((yield from staged_by(writer)), key=lambda row: row[0])
    }
    happened = yield from events.by_asset(context, emitted, writer.scope)
    for asset_id in sorted({*staged, *happened}):
        for _, key, value, *_ in staged.get(asset_id, ()):
            if value == HELD_TEXT:
                raise refusals.held_back(AssetScope(asset_id), key)
        if asset_id in staged:
            yield from apply(context, asset_id, staged[asset_id], writer)
        for event in happened.get(asset_id, ()):
            yield from events.record(context, asset_id, event, writer.scope)
