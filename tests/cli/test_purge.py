"""`holdfast state-store purge`: deletion of objects without references."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.accessor.asset_store import AssetStore
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import BackendFailed
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import as_reference
from holdfast.settings import ObjectStore
from holdfast.stores.offload.configuration import Offloading
from holdfast.stores.offload.objects.backend import ObjectStoreBackend
from holdfast.testing.memory_store import MemoryStore

ANN = ApiWriter("ann")
TASK = TaskScope("etl", "r1", "load")
BACKEND = "holdfast.sdk.state.ObjectStoreBackend"


@pytest.fixture
def objects(project: Path) -> Path:
    """Return the directory of offloaded values, as it is configured."""
    (project / "holdfast.toml").write_text(
        f'[workers]\nstate_backend = "{BACKEND}"\n[object_store]\nurl = "file://{project}/objects"'
    )
    return project / "objects"


@pytest.fixture
def task_store(store: MemoryStore, objects: Path) -> TaskStore:
    store.execute(c.RegisterTask(TASK))
    offloading = Offloading(BACKEND, ObjectStore(url=f"file://{objects}"))
    return TaskStore(offloading.over(store), TASK, ANN)


def test_a_purge_deletes_objects_without_references(
    holdfast: Callable[..., Any], store: MemoryStore, task_store: TaskStore, objects: Path
) -> None:
    task_store.set_many({"a": 1, "b": 2})
    store.execute(c.Delete(TASK, "a", ANN))  # as a server without credentials does

    seen = holdfast("state-store", "purge", "--dry-run")
    assert (seen.status, seen.err) == (0, "1 object queued for deletion, 0 reserved.\n")
    done = holdfast("state-store", "purge")

    assert (done.status, done.err) == (
        0,
        "Deleted 1 object.\n0 objects queued for deletion, 0 reserved.\n",
    )
    assert [path.parent.name for path in objects.rglob("*.json")] == ["b"]
    assert task_store.get("b") == 2


def test_objects_that_cannot_be_deleted_are_reported(
    holdfast: Callable[..., Any], store: MemoryStore, objects: Path
) -> None:
    store.execute(c.RegisterTask(TASK))
    place = f"file://{objects}/task/etl/r1/load/-1/k/{'0' * 64}.json"
    store.execute(c.QueueObjects(((TASK, "k", as_reference(place)),)))

    done = holdfast("state-store", "purge", "--json")

    assert done.status == 1
    assert json.loads(done.out)["failing"] == 1
    assert "does not exist" in done.err


def test_the_reason_of_a_failed_deletion_is_one_line(
    holdfast: Callable[..., Any],
    store: MemoryStore,
    objects: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> bool:
        raise BackendFailed("\x1b[2Jno\nerror: forged")

    monkeypatch.setattr(ObjectStoreBackend, "is_reference_of", fail)
    store.execute(c.RegisterTask(TASK))
    store.execute(c.QueueObjects(((TASK, "k", as_reference("s3://lake/a")),)))

    done = holdfast("state-store", "purge")

    assert done.status == 1
    assert "1 object could not be deleted: [2Jno error: forged" in done.err
    assert "\x1b" not in done.err


def test_a_manual_purge_retries_failed_deletions_at_once(
    holdfast: Callable[..., Any], store: MemoryStore, task_store: TaskStore, objects: Path
) -> None:
    task_store.set("a", 1)
    store.execute(c.Delete(TASK, "a", ANN))
    kept = objects.rename(objects.with_name("away"))
    assert holdfast("state-store", "purge").status == 1
    kept.rename(objects)

    done = holdfast("state-store", "purge")

    assert (done.status, done.err) == (
        0,
        "Deleted 1 object.\n0 objects queued for deletion, 0 reserved.\n",
    )
    assert list(objects.rglob("*.json")) == []


def test_a_purge_can_be_limited_to_one_scope(
    holdfast: Callable[..., Any], store: MemoryStore, task_store: TaskStore, objects: Path
) -> None:
    store.execute(c.DeclareAsset("orders"))
    offloading = Offloading(BACKEND, ObjectStore(url=f"file://{objects}"))
    AssetStore(offloading.over(store), AssetScope(name="orders"), ANN).set("k", 1)
    task_store.set("a", 1)
    store.execute(c.Delete(TASK, "a", ANN))
    store.execute(c.DeleteAsset(AssetScope(name="orders")))
    task = ("--dag-id", "etl", "--run-id", "r1", "--task-id", "load")

    partial = holdfast("state-store", "purge", "--dag-id", "etl")
    dry = holdfast("state-store", "purge", "--asset", "orders", "--dry-run")
    done = holdfast("state-store", "purge", *task)

    assert partial.status == 2
    assert dry.err == "1 object queued for deletion, 0 reserved.\n"
    assert (done.status, done.err) == (
        0,
        "Deleted 1 object.\n0 objects queued for deletion, 0 reserved.\n",
    )
    assert [path.parent.name for path in objects.rglob("*.json")] == ["k"]


def test_a_forged_reference_does_not_delete_the_object_of_another_scope(
    holdfast: Callable[..., Any], store: MemoryStore, task_store: TaskStore, objects: Path
) -> None:
    task_store.set("k", 1)
    text = store.execute(c.Get(TASK, "k"))
    assert text is not None
    mallory = TaskScope("etl", "r1", "mallory")
    store.execute(c.RegisterTask(mallory))
    store.execute(c.ReserveObjects(mallory, (("k", text, "mallory's"),), ANN))
    store.execute(c.Set(mallory, "k", text, ANN, reservation="mallory's"))
    store.execute(c.Delete(mallory, "k", ANN))

    done = holdfast("state-store", "purge")

    assert done.status == 0
    assert task_store.get("k") == 1


def test_a_purge_without_a_backend_is_an_error(holdfast: Callable[..., Any]) -> None:
    done = holdfast("state-store", "purge")

    assert done.status == 2
    assert "workers.state_backend is empty" in done.err
