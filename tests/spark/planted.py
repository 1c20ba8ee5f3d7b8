"""Store and workers' storage with one object of each kind, for reconcile."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import timedelta

from holdfast import commands as c
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import as_reference
from holdfast.settings import ObjectStore
from holdfast.stores.offload.objects.backend import ObjectStoreBackend
from holdfast.stores.offload.store import OffloadStore
from holdfast.stores.sql import SqlStore

ANNA = ApiWriter("anna")
LOAD = TaskScope("etl", "monday", "load")
ORDERS = AssetScope(name="orders")
LONG = AssetScope(name="s3://lake/" + "x" * 300)
"""A scope whose name is too long for a path."""


@dataclass
class Planted:
    """Each method creates one object or reference, and returns the reference."""

    store: SqlStore
    backend: ObjectStoreBackend
    offload: OffloadStore

    @classmethod
    def at(cls, database_url: str, url: str) -> Planted:
        store = SqlStore(database_url)
        backend = ObjectStoreBackend(ObjectStore(url=url))
        store.execute(c.RegisterTask(LOAD))
        store.execute(c.DeclareAsset("orders", "s3://orders"))
        return cls(store, backend, OffloadStore(store, backend))

    def entry(self, scope: StoreScope, key: str, text: str) -> str:
        self.offload.execute(c.Set(scope, key, text, ANNA))
        return self.place(scope, key, text)

    def expired(self, key: str, text: str) -> str:
        past = self.store.execute(c.Now()) - timedelta(days=1)
        self.offload.execute(c.Set(LOAD, key, text, ANNA, past))
        return self.place(LOAD, key, text)

    def staged(self, key: str, text: str) -> str:
        writer = TaskWriter(LOAD, self.store.execute(c.StartAttempt(LOAD)))
        self.offload.execute(c.Set(ORDERS, key, text, writer, on_success=True))
        return self.place(ORDERS, key, text)

    def reserved(self, key: str, text: str) -> str:
        reference = self.orphan(LOAD, key, text)
        self.store.execute(c.ReserveObjects(LOAD, ((key, as_reference(reference), "mine"),), ANNA))
        return reference

    def queued(self, key: str, text: str) -> str:
        reference = self.orphan(LOAD, key, text)
        self.store.execute(c.QueueObjects(((LOAD, key, as_reference(reference)),)))
        return reference

    def orphan(self, scope: StoreScope, key: str, text: str) -> str:
        reference = self.place(scope, key, text)
        self.backend.put(reference, scope, key, text.encode())
        return reference

    def missing(self, scope: StoreScope, key: str, text: str) -> str:
        reference = self.entry(scope, key, text)
        self.backend.remove([reference])
        return reference

    def place(self, scope: StoreScope, key: str, text: str) -> str:
        reference = self.backend.reference_for(scope, key, text.encode())
        assert reference is not None
        return reference

    def objects(self) -> set[str]:
        return {stored.reference for stored in self.backend.list_objects()}


def age(reference: str, by: timedelta) -> str:
    """Let a file be that old."""
    then = time.time() - by.total_seconds()
    os.utime(reference.removeprefix("file://"), (then, then))
    return reference
