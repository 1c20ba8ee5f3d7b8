"""Watchers of assets: one process at a time runs each, and only the newest may report events."""

from __future__ import annotations

from typing import Any

from holdfast import commands as c
from holdfast.errors import Conflict, InvalidInput
from holdfast.model.run import Watch, WatchInfo
from holdfast.model.scope import AssetScope
from holdfast.portable.identifier import check_id
from holdfast.stores import refusals
from holdfast.stores.sql import rows, run_rows
from holdfast.stores.sql.operations import events
from holdfast.stores.sql.operations.fencing import lock_scope
from holdfast.stores.sql.operations.runs import free
from holdfast.stores.sql.operations.scopes import resolve
from holdfast.stores.sql.operations.steps import BEGIN, Context, Lookup, Steps
from holdfast.stores.sql.statements import events as e


def watch_params(watch: Watch) -> Steps[dict[str, Any]]:
    asset_id = watch.asset.asset_id
    if asset_id is None:
        asset_id = (yield from _resolved(watch.asset)).asset_id
    return {"owner": asset_id, "watcher": watch.watcher, "count": watch.number}


def _resolved(scope: AssetScope) -> Steps[AssetScope]:
    asset = yield from resolve(scope)
    assert isinstance(asset, AssetScope)
    return asset


def list_watches(context: Context, command: c.ListWatches) -> Steps[tuple[WatchInfo, ...]]:
    return tuple(run_rows.watch(row) for row in (yield e.watchers(), {}))


def start_watch(context: Context, command: c.StartWatch) -> Steps[Watch]:
    check_id("watcher name", command.watcher)
    yield BEGIN
    asset = yield from _resolved(command.asset)
    params = {
        "owner": asset.asset_id,
        "watcher": command.watcher,
        "process": run_rows.process_column(command.process),
        "lease": rows.microseconds(command.lease),
    }
    found = yield e.lock_watcher(), params
    if not found:
        yield e.add_watcher(), params | {"count": 1}
        return Watch(asset, command.watcher, 1)
    number, owner, leased = found[0]
    if not free(owner, leased, command.process, command.dead):
        raise Conflict(
            f"watcher `{command.watcher}` of {asset} is being run by {run_rows.process(owner)}",
            hint="wait until that process has ended; its leases expire soon after",
        )
    yield e.change_watcher(), params | {"count": number + 1}
    return Watch(asset, command.watcher, number + 1)


def emit(operation_for: Lookup, context: Context, command: c.Emit) -> Steps[None]:
    """Execute the watcher's writes, and record its event. Raise StaleAttempt if a newer watch has
    begun."""
    yield BEGIN
    watch, event = command.watch, command.event
    found = yield e.lock_watcher(), (yield from watch_params(watch))
    if not found or found[0][0] != watch.number:
        raise refusals.watch_lost(watch)
    for write in command.writes:
        yield from operation_for(write)(context, write)
    if event is not None:
        asset = yield from _resolved(watch.asset)
        if (event.name, event.uri) != (asset.name, asset.uri):
            raise InvalidInput(
                f"watcher `{watch.watcher}` of {watch.asset} reports an event of asset "
                f"`{event.name}`",
                hint="a watcher reports events of the asset that it watches",
            )
        owner = yield from lock_scope(asset)
        yield from events.record(context, owner.id, event, source=None)
