"""Execution of a watcher's trigger."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable

from holdfast.commands import Emit
from holdfast.errors import InvalidDag, InvalidType
from holdfast.model.entry import WatcherWriter
from holdfast.model.run import EmittedEvent
from holdfast.model.scope import AssetScope
from holdfast.runner.protocol.messages import Done, WatchStartup
from holdfast.runner.task.dag_import import find_dag
from holdfast.sdk.asset import Asset, AssetWatcher
from holdfast.sdk.asset_stores import AssetStores, same
from holdfast.sdk.events import encode_extra
from holdfast.sdk.triggers import BaseEventTrigger, TriggerEvent
from holdfast.store import Store
from holdfast.stores.buffered import BufferedStore


def watch(startup: WatchStartup, store: Store) -> Done:
    """Run a watcher until it ends.

    Its writes are committed with its next event, in one transaction. Exceptions of the watcher
    propagate, and its writes since its last event are then dropped.
    """
    asset, watcher = _find_watcher(startup)
    asyncio.run(_run_trigger(startup, startup.rules.offloading.over(store), asset, watcher))
    return Done()


async def _run_trigger(
    startup: WatchStartup, store: Store, asset: Asset, watcher: AssetWatcher
) -> None:
    scope, trigger = AssetScope(name=asset.name, uri=asset.uri), watcher.trigger
    pending = BufferedStore(store, scope)
    trigger.asset_store = AssetStores(
        pending, f"watcher `{watcher.name}`", [scope], WatcherWriter(), startup.rules
    )
    try:
        async for event in _events(trigger):
            emitted = _emitted_event(asset, event)
            await store.aexecute(Emit(startup.watch, pending.take(), emitted))
        if left := pending.take():
            await store.aexecute(Emit(startup.watch, left))
    finally:
        await trigger.cleanup()
        trigger.asset_store = None


def _events(trigger: BaseEventTrigger) -> AsyncIterable[TriggerEvent]:
    """Return the events of the trigger. Raise InvalidType if its `run` is no async generator."""
    events: object = trigger.run()
    if not isinstance(events, AsyncIterable):
        if inspect.iscoroutine(events):
            events.close()
        raise InvalidType(
            f"`run` of {type(trigger).__name__} is not an async generator",
            hint="write `async def run(self)` with a `yield TriggerEvent(payload)` in it",
        )
    return events


def _emitted_event(asset: Asset, event: TriggerEvent) -> EmittedEvent:
    if not isinstance(event, TriggerEvent):
        raise InvalidType(
            f"the watcher of asset `{asset.name}` yielded {event!r}",
            hint="yield TriggerEvent(payload)",
        )
    extra = encode_extra(f"the event of asset `{asset.name}`", {"payload": event.payload})
    return EmittedEvent(asset.name, asset.uri, extra)


def _find_watcher(startup: WatchStartup) -> tuple[Asset, AssetWatcher]:
    sought = startup.watch
    for asset, watcher in find_dag(startup.file, startup.dag_id).watchers:
        if watcher.name == sought.watcher and same(sought.asset, asset.name, asset.uri):
            return asset, watcher
    raise InvalidDag(
        f"DAG `{startup.dag_id}` in {startup.file} has no watcher `{sought.watcher}` of "
        f"{sought.asset}"
    )
