"""Backend with the required methods only."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from holdfast.model.scope import StoreScope
from holdfast.stores.backend.base import BaseStoreBackend


class PlainBackend(BaseStoreBackend):
    def __init__(self) -> None:
        self._values: dict[tuple[StoreScope, str], str] = {}

    def get(self, scope: StoreScope, key: str, *, session: Any = None) -> str | None:
        return self._values.get((scope, key))

    def set(
        self,
        scope: StoreScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        session: Any = None,
    ) -> None:
        self._values[scope, key] = value

    def delete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        self._values.pop((scope, key), None)

    def clear(
        self, scope: StoreScope, *, all_map_indices: bool = False, session: Any = None
    ) -> None:
        self._values.clear()
