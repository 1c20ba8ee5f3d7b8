"""Fairness of the purge queue: objects of one task do not block those of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import commands as c
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import TaskScope
from holdfast.model.value import as_reference
from holdfast.runner.supervisor import purger
from holdfast.settings import ObjectStore
from holdfast.stores.offload.configuration import Offloading
from holdfast.stores.offload.purging import BATCH
from holdfast.testing.memory_store import MemoryStore

ANN = ApiWriter("ann")
TASK = TaskScope("d", "r", "t")
GREEDY = TaskScope("d", "r", "greedy")
BACKEND = "holdfast.sdk.state.ObjectStoreBackend"


@pytest.fixture
def queued(tmp_path: Path) -> tuple[MemoryStore, Offloading]:
    """Return a store whose queue has an object behind more than a batch that cannot be deleted."""
    store = MemoryStore()
    offloading = Offloading(BACKEND, ObjectStore(url=f"file://{tmp_path}"))
    for scope in (TASK, GREEDY):
        store.execute(c.RegisterTask(scope))
    another_backends = as_reference("x", in_place=True)
    objects = tuple((GREEDY, str(number), another_backends) for number in range(BATCH + 1))
    store.execute(c.QueueObjects(objects))
    offloading.over(store).execute(c.Set(TASK, "k", "1", ANN))
    store.execute(c.Delete(TASK, "k", ANN))
    return store, offloading


def test_objects_that_cannot_be_deleted_do_not_block_others(
    queued: tuple[MemoryStore, Offloading], tmp_path: Path
) -> None:
    store, offloading = queued
    assert list(tmp_path.rglob("*.json"))

    purger.Purger(store, offloading)._empty()

    assert not list(tmp_path.rglob("*.json"))
    queue = store.execute(c.CountPurges())
    assert (queue.waiting, queue.failing) == (BATCH + 1, BATCH + 1)


def test_a_purge_with_failures_ends(
    queued: tuple[MemoryStore, Offloading], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, offloading = queued
    monkeypatch.setattr(purger, "INTERVAL", 0.0)

    purger.Purger(store, offloading)._empty()

    assert store.execute(c.CountPurges()).failing == BATCH
