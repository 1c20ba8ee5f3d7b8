"""Backends as third parties might write them, each for a dict, in every spelling."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast import commands as c
from holdfast.model.entry import Entry, Found, Page, signature
from holdfast.model.value import larger
from holdfast.sdk.state import (
    AssetScope,
    BaseStateBackend,
    BaseStoreBackend,
    StateScope,
    StoreScope,
    TaskScope,
)
from holdfast.stores import refusals


def wall_clock() -> datetime:
    return datetime.now(UTC)


class DictBackend(BaseStoreBackend):
    """Server-side backend with the four methods only."""

    def __init__(self, clock: Callable[[], datetime] = wall_clock) -> None:
        self.clock = clock
        self.rows: dict[tuple[StoreScope, str], tuple[str, datetime | None]] = {}

    def get(self, scope: StoreScope, key: str, *, session: Any = None) -> str | None:
        value, expires_at = self.rows.get((scope, key), (None, None))
        return None if expires_at and expires_at <= self.clock() else value

    def set(
        self,
        scope: StoreScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        session: Any = None,
    ) -> None:
        self.rows[scope, key] = value, expires_at

    def delete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        self.rows.pop((scope, key), None)

    def clear(
        self, scope: StoreScope, *, all_map_indices: bool = False, session: Any = None
    ) -> None:
        def goes(other: StoreScope) -> bool:
            if all_map_indices and isinstance(scope, TaskScope) and isinstance(other, TaskScope):
                other = msgspec.structs.replace(other, map_index=scope.map_index)
            return other == scope

        for other, key in [at for at in self.rows if goes(at[0])]:
            del self.rows[other, key]


class SelfCleaning(DictBackend):
    """Backend with its own cleanup."""

    def cleanup(self) -> None:
        for at, (_, expires_at) in list(self.rows.items()):
            if expires_at and expires_at <= self.clock():
                del self.rows[at]


class VersionedBackend(BaseStoreBackend):
    """Server-side backend with versions, lists, batches and `advance` by optional methods."""

    def __init__(self, clock: Callable[[], datetime] = wall_clock) -> None:
        self.clock = clock
        self.entries: dict[tuple[StoreScope, str], Entry[str]] = {}
        self.version = 0

    def supports(self, command: type[c.Command[Any]]) -> bool:
        return command in (c.GetEntry, c.List, c.SetMany, c.Advance)

    def execute(self, command: c.Command[Any]) -> Any:
        match command:
            case c.Set(scope, key, value, writer, expires_at, if_version):
                live = self._live(scope, key)
                current = live.version if live else 0
                if if_version is not None and if_version != current:
                    raise refusals.conflict(scope, key, if_version, current)
                return self._put(scope, {key: value}, writer, expires_at)
            case c.SetMany(scope, values, writer, expires_at):
                return self._put(scope, dict(values), writer, expires_at)
            case c.Advance(scope, key, value, writer):
                live = self._live(scope, key)
                standing = live.value if live else None
                value = larger(standing, value, key)
                if value != standing:
                    self._put(scope, {key: value}, writer, None)
                return value
            case c.GetEntry(scope, key):
                return self._live(scope, key)
            case c.List(where):
                return self._page(command, where)
        raise AssertionError(command)

    def get(self, scope: StoreScope, key: str, *, session: Any = None) -> str | None:
        live = self._live(scope, key)
        return live.value if live else None

    def set(self, scope: StoreScope, key: str, value: str, **options: Any) -> None:
        raise AssertionError("a backend with versions is given Set as a command")

    def delete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        self.entries.pop((scope, key), None)

    def clear(
        self, scope: StoreScope, *, all_map_indices: bool = False, session: Any = None
    ) -> None:
        for at in list(self.entries):
            if at[0] == scope or (all_map_indices and _task(at[0]) == _task(scope)):
                del self.entries[at]

    def _live(self, scope: StoreScope, key: str) -> Entry[str] | None:
        entry = self.entries.get((scope, key))
        gone = entry and entry.expires_at and entry.expires_at <= self.clock()
        return None if gone else entry

    def _put(
        self, scope: StoreScope, values: dict[str, str], writer: Any, expires_at: datetime | None
    ) -> int:
        self.version += 1
        for key, value in values.items():
            self.entries[scope, key] = Entry(
                key, value, self.version, self.clock(), signature(writer), expires_at
            )
        return self.version

    def _page(self, command: c.List, where: c.Where) -> Page:
        found = [
            Found(scope, entry)
            for (scope, key), entry in sorted(self.entries.items(), key=lambda at: _order(at[0]))
            if self._live(scope, key)
            and _matches(where, scope)
            and key.startswith(command.prefix)
            and (not command.updated_since or entry.updated_at >= command.updated_since)
            and (
                not command.expiring_before
                or (entry.expires_at and entry.expires_at < command.expiring_before)
            )
        ]
        stop = None if command.limit is None else command.offset + command.limit
        return Page(tuple(found[command.offset : stop]), len(found))


def _task(scope: StoreScope) -> Any:
    if isinstance(scope, TaskScope):
        return scope.dag_id, scope.run_id, scope.task_id
    return scope


def _order(at: tuple[StoreScope, str]) -> Any:
    scope, key = at
    if isinstance(scope, TaskScope):
        return scope.dag_id, scope.run_id, scope.task_id, scope.map_index, key
    return scope.name or "", "", "", 0, key


def _matches(where: c.Where, scope: StoreScope) -> bool:
    match where:
        case c.TaskFilter():
            wanted = msgspec.structs.asdict(where).items()
            return isinstance(scope, TaskScope) and all(
                value is None or getattr(scope, name) == value for name, value in wanted
            )
        case c.AssetFilter():
            return isinstance(scope, AssetScope)
    return where == scope


class CanonicalHooks(DictBackend):
    """Worker-side backend in Holdfast's spelling."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, Any] = {}

    def serialize_task_store_to_ref(self, *, value: Any, key: str, ti_id: str) -> str:
        return self.keep(f"task/{ti_id}/{key}", value)

    def deserialize_task_store_from_ref(self, stored: str) -> Any:
        return json.loads(self.objects[stored])

    def serialize_asset_store_to_ref(self, *, value: Any, key: str, asset_ref: str) -> str:
        return self.keep(f"asset/{asset_ref}/{key}", value)

    def deserialize_asset_store_from_ref(self, stored: str) -> Any:
        return json.loads(self.objects[stored])

    def keep(self, place: str, value: Any) -> str:
        self.objects[place] = json.dumps(value)
        return place

    def delete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        self.objects.pop(f"{self.folder(scope)}/{key}", None)

    def clear(
        self, scope: StoreScope, *, all_map_indices: bool = False, session: Any = None
    ) -> None:
        if all_map_indices:
            raise NotImplementedError("ids of other indices cannot be guessed")
        for place in [one for one in self.objects if one.startswith(f"{self.folder(scope)}/")]:
            del self.objects[place]

    def folder(self, scope: StoreScope) -> str:
        return f"task/{scope.ti_id}" if isinstance(scope, TaskScope) else f"asset/{scope.name}"


class AirflowHooks(DictBackend):
    """Worker-side backend in the spelling of Airflow 3.3."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, Any] = {}

    def serialize_task_state_store_to_ref(self, *, value: Any, key: str, scope: TaskScope) -> str:
        return self.keep(f"{scope.dag_id}/{scope.run_id}/{scope.task_id}", scope, key, value)

    def deserialize_task_state_store_from_ref(self, stored: str) -> Any:
        return json.loads(self.objects[stored])

    def serialize_asset_state_store_to_ref(self, *, value: Any, key: str, scope: AssetScope) -> str:
        return self.keep("assets", scope, key, value)

    def deserialize_asset_state_store_from_ref(self, stored: str) -> Any:
        return json.loads(self.objects[stored])

    def keep(self, where: str, scope: StoreScope, key: str, value: Any) -> str:
        place = f"{where}/{scope}/{key}"
        self.objects[place] = json.dumps(value)
        return place

    def delete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        for place in [place for place in self.objects if place.endswith(f"/{scope}/{key}")]:
            del self.objects[place]

    def clear(
        self, scope: StoreScope, *, all_map_indices: bool = False, session: Any = None
    ) -> None:
        place = f"/{scope}/"
        if all_map_indices and isinstance(scope, TaskScope):
            place = f"{scope.dag_id}/{scope.run_id}/{scope.task_id}/"
        for one in [one for one in self.objects if place in one]:
            del self.objects[one]


class HooksOnly(BaseStateBackend):
    """Base class of the drafts' backends: only hooks, which deal in JSON text."""

    def __init__(self) -> None:
        self.objects: dict[str, str] = {}

    def keep(self, place: str, text: str) -> str:
        assert isinstance(text, str)
        self.objects[place] = text
        return place

    def get(self, scope: StateScope, key: str, *, session: Any = None) -> str | None:
        raise NotImplementedError

    def set(self, scope: StateScope, key: str, value: str, **options: Any) -> None:
        raise NotImplementedError

    def delete(self, scope: StateScope, key: str, *, session: Any = None) -> None:
        raise NotImplementedError

    def clear(self, scope: StateScope, **options: Any) -> None:
        raise NotImplementedError


class DraftReferenceHooks(HooksOnly):
    """Worker-side backend in the spelling of the later drafts."""

    def serialize_task_state_to_ref(self, value: str, key: str, ti_id: str) -> str:
        return self.keep(f"{ti_id}:{key}", value)

    def deserialize_task_state_from_ref(self, stored: str) -> str:
        return self.objects[stored]

    def serialize_asset_state_to_ref(self, value: str, key: str, asset_ref: str) -> str:
        return self.keep(f"{asset_ref}:{key}", value)

    def deserialize_asset_state_from_ref(self, stored: str) -> str:
        return self.objects[stored]


class DraftValueHooks(HooksOnly):
    """Worker-side backend in the spelling of the first drafts, with a hook for purging."""

    def serialize_task_state_value(self, value: str, key: str, ti_id: str) -> str:
        return self.keep(f"{ti_id}:{key}", value)

    def deserialize_task_state_value(self, stored: str) -> str:
        return self.objects[stored]

    def purge_task_state(self, stored: str) -> None:
        self.objects.pop(stored, None)

    def serialize_asset_state_value(self, value: str, key: str, asset_name: str) -> str:
        return self.keep(f"{asset_name}:{key}", value)

    def deserialize_asset_state_value(self, stored: str) -> str:
        return self.objects[stored]

    def purge_asset_state(self, stored: str) -> None:
        self.objects.pop(stored, None)
