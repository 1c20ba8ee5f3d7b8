"""Configuration of the worker-side backend, and of the store that offloads to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.settings import ObjectStore, Settings

if TYPE_CHECKING:
    from holdfast.store import Store
    from holdfast.stores.backend.base import BaseStoreBackend
    from holdfast.stores.offload.store import OffloadStore


class Offloading(msgspec.Struct, frozen=True, omit_defaults=True):
    """Destination of workers' values: a backend, or the server if none is configured."""

    backend: str = ""
    object_store: ObjectStore = ObjectStore()

    @classmethod
    def of(cls, settings: Settings) -> Offloading:
        return cls(settings.workers.state_backend, settings.object_store)

    def over(self, store: Store) -> Store:
        """Return the store as a worker uses it, offloading if a backend is configured."""
        return self.opened(store) if self.backend else store

    def opened(self, store: Store, *, holds_back: bool = True) -> OffloadStore:
        """Return the offloading store; `holds_back` in the process that reports the success of the
        attempt, where staged values may have to be held back until then."""
        # Imported here, because most workers have no backend.
        from holdfast.stores.offload.store import OffloadStore

        limit = self.object_store.max_value_bytes
        return OffloadStore(store, self._made(), holds_back=holds_back, max_value_bytes=limit)

    def check(self) -> None:
        """Raise an error if the backend cannot be loaded, before anything depends on it."""
        if self.backend:
            self._made()

    def _made(self) -> BaseStoreBackend:
        from holdfast.stores.backend.base import load_backend
        from holdfast.stores.offload.objects.backend import ObjectStoreBackend

        return load_backend(self.backend, {ObjectStoreBackend: self.object_store})
