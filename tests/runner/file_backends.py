"""Backends as third parties might write them, each for a directory, in every spelling."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from holdfast.sdk.state import (
    AssetScope,
    BaseStateBackend,
    BaseStoreBackend,
    StateScope,
    StoreScope,
    TaskScope,
)

PLACE = "DIRECTORY_OF_THE_BACKEND"


def directory() -> Path:
    place = Path(os.environ[PLACE])
    place.mkdir(exist_ok=True)
    return place


def keep(owner: object, key: str, text: str) -> str:
    assert isinstance(text, str)
    path = directory() / quote(f"{owner} {key}", safe="")
    path.write_text(text)
    return path.name


def fetch(reference: str) -> str:
    return (directory() / reference).read_text()


def kept() -> list[tuple[str, str]]:
    """Return keys and texts of all scopes."""
    return [(unquote(path.name).split()[-1], path.read_text()) for path in directory().iterdir()]


class Deleting(BaseStateBackend):
    """Base class: all methods but deletion are left to the server."""

    def get(self, scope: StateScope, key: str, *, session: Any = None) -> str | None:
        raise NotImplementedError

    def set(self, scope: StateScope, key: str, value: str, **options: Any) -> None:
        raise NotImplementedError

    def delete(self, scope: StateScope, key: str, *, session: Any = None) -> None:
        owner = scope.ti_id if isinstance(scope, TaskScope) else scope.name
        (directory() / quote(f"{owner} {key}", safe="")).unlink()

    def clear(self, scope: StateScope, **options: Any) -> None:
        raise NotImplementedError


class Canonical(Deleting):
    """Worker-side backend in Holdfast's spelling."""

    def serialize_task_store_to_ref(self, *, value: Any, key: str, ti_id: str) -> str:
        return keep(ti_id, key, json.dumps(value))

    def deserialize_task_store_from_ref(self, stored: str) -> Any:
        return json.loads(fetch(stored))

    def serialize_asset_store_to_ref(self, *, value: Any, key: str, asset_ref: str) -> str:
        return keep(asset_ref, key, json.dumps(value))

    def deserialize_asset_store_from_ref(self, stored: str) -> Any:
        return json.loads(fetch(stored))


class Airflow(Deleting):
    """Worker-side backend in the spelling of Airflow 3.3."""

    def serialize_task_state_store_to_ref(self, *, value: Any, key: str, scope: TaskScope) -> str:
        return keep(scope.ti_id, key, json.dumps(value))

    def deserialize_task_state_store_from_ref(self, stored: str) -> Any:
        return json.loads(fetch(stored))

    def serialize_asset_state_store_to_ref(self, *, value: Any, key: str, scope: AssetScope) -> str:
        return keep(scope.name, key, json.dumps(value))

    def deserialize_asset_state_store_from_ref(self, stored: str) -> Any:
        return json.loads(fetch(stored))


class LaterDraft(Deleting):
    """Worker-side backend in the spelling of the later drafts."""

    def serialize_task_state_to_ref(self, value: str, key: str, ti_id: str) -> str:
        return keep(ti_id, key, value)

    def deserialize_task_state_from_ref(self, stored: str) -> str:
        return fetch(stored)

    def serialize_asset_state_to_ref(self, value: str, key: str, asset_ref: str) -> str:
        return keep(asset_ref, key, value)

    def deserialize_asset_state_from_ref(self, stored: str) -> str:
        return fetch(stored)


class FirstDraft(Deleting):
    """Worker-side backend in the spelling of the first drafts, with a hook for purging."""

    def serialize_task_state_value(self, value: str, key: str, ti_id: str) -> str:
        return keep(ti_id, key, value)

    def deserialize_task_state_value(self, stored: str) -> str:
        return fetch(stored)

    def purge_task_state(self, stored: str) -> None:
        (directory() / stored).unlink()

    def serialize_asset_state_value(self, value: str, key: str, asset_name: str) -> str:
        return keep(asset_name, key, value)

    def deserialize_asset_state_value(self, stored: str) -> str:
        return fetch(stored)

    def purge_asset_state(self, stored: str) -> None:
        (directory() / stored).unlink()


class ServerSide(BaseStoreBackend):
    """Server-side backend with the four methods and its own directory beside the project's."""

    def _path(self, scope: StoreScope, key: str = "") -> Path:
        place = Path("server-side")
        place.mkdir(exist_ok=True)
        return place / quote(f"{scope} {key}", safe="")

    def get(self, scope: StoreScope, key: str, *, session: Any = None) -> str | None:
        path = self._path(scope, key)
        return path.read_text() if path.exists() else None

    def set(
        self,
        scope: StoreScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        session: Any = None,
    ) -> None:
        self._path(scope, key).write_text(value)
        with open("server-side.log", "a") as log:
            log.write(value + "\n")

    def delete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        self._path(scope, key).unlink(missing_ok=True)

    def clear(
        self, scope: StoreScope, *, all_map_indices: bool = False, session: Any = None
    ) -> None:
        for path in Path("server-side").glob(f"{self._path(scope).name}*"):
            path.unlink()
