"""Asset events: those that a task emits, and those that triggered its run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from holdfast.commands import GetAsset, RunEvents
from holdfast.errors import InvalidInput, InvalidType, UndeclaredAsset
from holdfast.model.run import AssetEvent as RecordedEvent
from holdfast.model.run import EmittedEvent
from holdfast.model.scope import AssetScope
from holdfast.model.value import encode
from holdfast.sdk.asset import Asset, AssetAlias, AssetRef, Metadata
from holdfast.store import Store


class OutletEvent:
    """The event of one outlet. For an alias, `add` adds the events of assets behind it."""

    def __init__(self, key: Asset | AssetRef | AssetAlias) -> None:
        self.key = key
        self.extra: dict[str, Any] = {}
        self.added: list[tuple[Asset, dict[str, Any]]] = []

    def add(self, asset: Asset, extra: dict[str, Any] | None = None) -> None:
        """Add an event of an asset behind this alias. Raise InvalidType if this is no alias."""
        if not isinstance(self.key, AssetAlias):
            raise InvalidType(
                f"asset `{self.key.name or self.key.uri}` is not an alias",
                hint="set outlet_events[asset].extra",
            )
        if not isinstance(asset, Asset):
            raise InvalidType(f"{asset!r} is not an asset", hint='add(Asset("orders"))')
        self.added.append((asset, dict(extra or {})))


class OutletEvents:
    """`outlet_events` in the context, by outlet."""

    def __init__(self, owner: str, outlets: Sequence[Asset | AssetRef | AssetAlias]) -> None:
        self._owner = owner
        self._events = {outlet: OutletEvent(outlet) for outlet in outlets}

    def resolve(self, store: Store) -> None:
        """Find the assets that references among the outlets stand for.

        Raise UnknownAsset if there is none, before the task has done its work in vain.
        """
        resolved: dict[Asset | AssetRef | AssetAlias, OutletEvent] = {}
        for outlet, event in self._events.items():
            key = outlet
            if isinstance(outlet, AssetRef):
                info = store.execute(GetAsset(AssetScope(name=outlet.name, uri=outlet.uri)))
                key = Asset(info.name, info.uri)
            resolved.setdefault(key, event)
        self._events = resolved

    def __getitem__(self, key: Asset | AssetAlias | AssetRef) -> OutletEvent:
        for outlet, event in self._events.items():
            if outlet == key or (isinstance(key, AssetRef) and _means(key, outlet)):
                return event
        raise UndeclaredAsset(
            f"{key!r} is not among the outlets of {self._owner}", hint="add it to outlets="
        )

    def note(self, metadata: Metadata) -> None:
        """Record metadata that the task reported about an asset."""
        if metadata.alias is not None:
            self[metadata.alias].add(metadata.asset, metadata.extra)
        else:
            self[metadata.asset].extra.update(metadata.extra)

    def emitted(self) -> tuple[EmittedEvent, ...]:
        """Return one event for each asset among the outlets, and the events behind aliases."""
        aliases: dict[tuple[str, str, str], list[str]] = {}
        for outlet, event in self._events.items():
            if isinstance(outlet, Asset):
                aliases.setdefault(self._identity(outlet, event.extra), [])
                continue
            assert isinstance(outlet, AssetAlias)
            for asset, extra in event.added:
                named = aliases.setdefault(self._identity(asset, extra), [])
                if outlet.name not in named:
                    named.append(outlet.name)
        return tuple(EmittedEvent(*identity, tuple(named)) for identity, named in aliases.items())

    def _identity(self, asset: Asset, extra: dict[str, Any]) -> tuple[str, str, str]:
        return asset.name, asset.uri, encode_extra(f"the event of asset `{asset.name}`", extra)


def _means(ref: AssetRef, outlet: Asset | AssetRef | AssetAlias) -> bool:
    return isinstance(outlet, Asset) and (ref.name == outlet.name or ref.uri == outlet.uri)


def encode_extra(where: str, extra: Any) -> str:
    """Return the extra data of an event as JSON; errors begin with `where`."""
    try:
        return encode(extra)
    except (InvalidInput, InvalidType) as error:
        raise type(error)(f"{where}: {error.message}", hint=error.hint) from None


class TriggeringEvent:
    """An event that triggered the run, perhaps together with others."""

    def __init__(self, event: RecordedEvent) -> None:
        self.asset = Asset(event.asset.name, event.asset.uri)
        self.timestamp: datetime = event.at
        self.extra: dict[str, Any] = msgspec.json.decode(event.extra)
        self.source_dag_id = event.source.dag_id if event.source else None
        self.source_run_id = event.source.run_id if event.source else None
        self.source_task_id = event.source.task_id if event.source else None
        self.source_map_index = event.source.map_index if event.source else -1

    def __repr__(self) -> str:
        return f"<event of asset `{self.asset.name}` at {self.timestamp}>"


class TriggeringEvents(Mapping[Asset, list[TriggeringEvent]]):
    """`triggering_asset_events` in the context: by asset, oldest first. Loaded on first use."""

    def __init__(self, store: Store, dag_id: str, run_id: str) -> None:
        self._store = store
        self._asked = RunEvents(dag_id, run_id)

    @cached_property
    def _events(self) -> dict[Asset, list[TriggeringEvent]]:
        found: dict[Asset, list[TriggeringEvent]] = {}
        for recorded in self._store.execute(self._asked):
            event = TriggeringEvent(recorded)
            found.setdefault(event.asset, []).append(event)
        return found

    def __getitem__(self, key: Asset | AssetRef) -> list[TriggeringEvent]:
        for asset, events in self._events.items():
            if asset == key or (isinstance(key, AssetRef) and _means(key, asset)):
                return events
        raise KeyError(key)

    def __iter__(self) -> Iterator[Asset]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)
