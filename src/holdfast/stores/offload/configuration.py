"""Which worker-side backend the settings name, and how a worker's store is put in front of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.settings import ObjectStore, Settings

if TYPE_CHECKING:
    from holdfast.store import Store
    from holdfast.stores.backend.contract import BaseStoreBackend
    from holdfast.stores.offload.store import OffloadStore


class Offloading(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the values of workers go; without a backend, to the server."""

    backend: str = ""
    object_store: ObjectStore = ObjectStore()

    @classmethod
    def of(cls, settings: Settings) -> Offloading:
        return cls(settings.workers.state_backend, settings.object_store)

    def over(self, store: Store) -> Store:
        """The store as a worker uses it."""
        return self.opened(store) if self.backend else store

    def opened(self, store: Store, *, holds_back: bool = True) -> OffloadStore:
        """The same, where there is a backend; `holds_back` in the process that tells the success
        of its attempt."""
        # Loaded when needed: most workers have none.
        from holdfast.stores.offload.store import OffloadStore

        limit = self.object_store.max_value_bytes
        return OffloadStore(store, self._made(), holds_back=holds_back, max_value_bytes=limit)

    def check(self) -> None:
        """An error where the backend cannot be had, before anything depends on it."""
        if self.backend:
            self._made()

    def _made(self) -> BaseStoreBackend:
        from holdfast.stores.backend.contract import load_backend
        from holdfast.stores.offload.objects.backend import ObjectStoreBackend

        return load_backend(self.backend, {ObjectStoreBackend: self.object_store})
