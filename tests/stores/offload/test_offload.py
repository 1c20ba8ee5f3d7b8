"""Offloaded values in ObjectStoreBackend, with the rules of inline values."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from objectserver import ObjectServer, object_server

from holdfast import commands as c
from holdfast.accessor.asset_store import AssetStore
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import BackendFailed, StaleAttempt, StoreUnavailable, VersionConflict
from holdfast.model.entry import ApiWriter, TaskWriter, WatcherWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import is_reference
from holdfast.process import this_process
from holdfast.settings import ObjectStore
from holdfast.store import Store
from holdfast.stores.offload.objects.backend import ObjectStoreBackend
from holdfast.stores.offload.purging import BATCH
from holdfast.stores.offload.store import OffloadStore
from holdfast.stores.sql import SqlStore
from holdfast.testing import MakeStore, StateConformance
from holdfast.testing.conformance.content import Content
from holdfast.testing.conformance.entries import Entries
from holdfast.testing.conformance.history import Histories
from holdfast.testing.conformance.random_commands import RandomCommands
from holdfast.testing.conformance.staging import Staging
from holdfast.testing.memory_store import MemoryStore

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")
MINUTE = timedelta(minutes=1)


PUT_BACK = {
    "test_a_staged_advance_does_not_restore_a_value_rewound_concurrently": (
        "what is put back meanwhile may be a reference again"
    )
}


class OffloadFixtures:
    @pytest.fixture
    def url(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def make_store(self, url: str) -> MakeStore:
        backend = ObjectStoreBackend(ObjectStore(url=url))
        return lambda clock: OffloadStore(MemoryStore(clock=clock), backend)


class TestOffloadToMemory(OffloadFixtures, StateConformance):
    differs = {
        "test_a_pickled_store_reads_and_writes_the_same_state": "the memory beneath stays there",
        "test_an_advance_creates_a_version_with_its_writer": (
            "what it compares is in the database: a reference is replaced by its value first, "
            "as a version of its own"
        ),
        **PUT_BACK,
        "test_random_commands_do_what_they_do_to_a_dict": "for the same reasons",
    }

    @pytest.fixture
    def url(self) -> str:
        return f"memory://{uuid4().hex}"


class StorageConformance(OffloadFixtures, Entries, Content, Histories, Staging):
    """The tests whose objects differ from one storage to another."""

    differs = PUT_BACK


class TestOffloadToFiles(StorageConformance):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"file://{tmp_path}"


@pytest.fixture(scope="module")
def s3() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


@pytest.fixture(scope="module")
def bucket(s3: ObjectServer) -> str:
    return s3.make_bucket()


@pytest.mark.full
class TestOffloadToS3(StorageConformance):
    @pytest.fixture
    def url(self, s3: ObjectServer, bucket: str, monkeypatch: pytest.MonkeyPatch) -> str:
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        return f"{bucket}/{uuid4().hex}"


class TestRandomCommands(RandomCommands):
    gaps = (c.Advance,)  # see TestOffloadToMemory

    @pytest.fixture
    def make_store(self) -> MakeStore:
        backend = ObjectStoreBackend(ObjectStore(url=f"memory://{uuid4().hex}"))
        return lambda clock: OffloadStore(MemoryStore(clock=clock), backend)


@pytest.fixture
def inner() -> MemoryStore:
    store = MemoryStore()
    store.execute(c.RegisterTask(TASK))
    store.execute(c.DeclareAsset("orders", "s3://lake/orders"))
    return store


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def backend(place: Path) -> ObjectStoreBackend:
    return ObjectStoreBackend(ObjectStore(url=f"file://{place}"))


@pytest.fixture
def store(inner: MemoryStore, backend: ObjectStoreBackend) -> OffloadStore:
    return OffloadStore(inner, backend)


def objects(place: Path) -> list[str]:
    """Return the keys whose values are stored as objects."""
    return sorted(path.parent.name for path in place.rglob("*.json"))


def test_the_inner_store_gets_only_a_reference(inner: Store, store: Store, place: Path) -> None:
    TaskStore(store, TASK, ANN).set("job", {"id": "app_1"})

    text = inner.execute(c.Get(TASK, "job"))
    assert text is not None
    assert is_reference(text)
    assert "app_1" not in text
    assert objects(place) == ["job"]


def test_values_under_the_threshold_stay_inline(inner: Store, place: Path) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=f"file://{place}", threshold_bytes=10))
    task_store = TaskStore(OffloadStore(inner, backend), TASK, ANN)

    task_store.set_many({"small": "x" * 7, "large": "x" * 8})

    assert inner.execute(c.Get(TASK, "small")) == '"xxxxxxx"'
    assert objects(place) == ["large"]
    assert task_store.items() == [("large", "x" * 8), ("small", "x" * 7)]


def test_keys_are_listed_without_their_values(store: Store, place: Path) -> None:
    task_store = TaskStore(store, TASK, ANN)
    task_store.set_many({"a": 1, "b": 2})
    for path in place.rglob("*.json"):
        path.unlink()

    assert task_store.keys() == ["a", "b"]


def test_delete_and_clear_remove_the_objects(store: Store, place: Path) -> None:
    task_store = TaskStore(store, TASK, ANN)
    task_store.set_many({"a": 1, "b": 2, "c": 3})

    task_store.delete("a")
    assert objects(place) == ["b", "c"]

    task_store.clear()
    assert objects(place) == []


def test_an_object_is_deleted_with_the_last_version_that_refers_to_it(
    backend: ObjectStoreBackend, place: Path
) -> None:
    inner = MemoryStore(history_limit=2)
    inner.execute(c.DeclareAsset("orders"))
    store = OffloadStore(inner, backend)
    asset_store = AssetStore(store, ORDERS, ANN)

    for value in range(4):
        asset_store.set("watermark", value)
    store.purge()

    assert len(objects(place)) == 2
    assert [step.value for step in asset_store.history("watermark")] == [3, 2]


def test_a_refused_write_changes_nothing_and_leaves_no_object(
    store: OffloadStore, place: Path
) -> None:
    task_store = TaskStore(store, TASK, ANN)
    task_store.set("job", 1)

    with pytest.raises(VersionConflict):
        task_store.set("job", 2, if_version=17)
    store.purge()

    assert task_store.get("job") == 1
    assert len(objects(place)) == 1


def test_a_zombie_does_not_even_write_an_object(store: OffloadStore, place: Path) -> None:
    zombie = TaskWriter(TASK, store.execute(c.StartAttempt(TASK)))
    store.execute(c.StartAttempt(TASK))

    with pytest.raises(StaleAttempt):
        TaskStore(store, TASK, zombie).set("job", 1)

    assert objects(place) == []


class Disconnected(MemoryStore):
    """Store that loses the answer to every write of an entry."""

    def execute(self, command: c.Command[Any]) -> Any:
        answer = super().execute(command)
        if isinstance(command, c.Set):
            raise StoreUnavailable("gone")
        return answer


def test_an_object_whose_write_may_have_been_committed_is_kept(
    backend: ObjectStoreBackend, place: Path
) -> None:
    inner = Disconnected()
    inner.execute(c.RegisterTask(TASK))
    store = OffloadStore(inner, backend)
    task_store = TaskStore(store, TASK, ANN)

    with pytest.raises(StoreUnavailable):
        task_store.set("job", 1)
    store.purge()

    assert task_store.get("job") == 1


def test_a_missing_object_is_an_error_that_names_it(store: Store, place: Path) -> None:
    task_store = TaskStore(store, TASK, ANN)
    task_store.set("job", 1)
    [path] = place.rglob("*.json")
    path.unlink()

    with pytest.raises(BackendFailed, match=path.name):
        task_store.get("job")


class Overtaken(MemoryStore):
    """Store in which an entry is overwritten, and its object purged, just after each read."""

    def overtake(self, store: OffloadStore, value: int) -> None:
        self.next = store, value

    def execute(self, command: c.Command[Any]) -> Any:
        answer = super().execute(command)
        if isinstance(command, c.Get) and hasattr(self, "next"):
            store, value = self.next
            del self.next
            TaskStore(store, TASK, ANN).set("job", value)
            store.purge()
        return answer


def test_a_reader_of_a_purged_object_reads_the_new_value(backend: ObjectStoreBackend) -> None:
    inner = Overtaken()
    inner.execute(c.RegisterTask(TASK))
    store = OffloadStore(inner, backend)
    task_store = TaskStore(store, TASK, ANN)
    task_store.set("job", 1)
    inner.overtake(store, 2)

    assert task_store.get("job") == 2


def test_a_value_written_again_is_not_purged(store: OffloadStore, place: Path) -> None:
    task_store = TaskStore(store, TASK, ANN)
    for value in (1, 2, 1):
        task_store.set("job", value)

    store.purge()

    assert task_store.get("job") == 1
    assert len(objects(place)) == 1


def test_an_asset_has_the_same_object_by_name_and_uri(store: Store, place: Path) -> None:
    AssetStore(store, AssetScope(uri="s3://lake/orders"), ANN).set("watermark", 1)
    AssetStore(store, ORDERS, ANN).set("watermark", 1)

    assert len(objects(place)) == 1


def test_an_advance_stores_the_current_value_inline(
    inner: Store, store: Store, place: Path
) -> None:
    asset_store = AssetStore(store, ORDERS, ANN)
    asset_store.set("watermark", 5)

    assert asset_store.advance("watermark", 3) == 5
    assert asset_store.advance("watermark", 9) == 9
    assert inner.execute(c.Get(ORDERS, "watermark")) == "9"


def test_a_staged_value_is_an_object_until_the_attempt_fails(
    store: OffloadStore, place: Path
) -> None:
    writer = TaskWriter(TASK, store.execute(c.StartAttempt(TASK)))
    asset_store = AssetStore(store, ORDERS, writer)
    asset_store.set("watermark", 1, on_success=True)
    assert asset_store.get("watermark") == 1
    assert objects(place) == ["watermark"]

    store.execute(c.FinishAttempt(writer, succeeded=False))
    store.purge()

    assert AssetStore(store, ORDERS, ANN).get("watermark") is None
    assert objects(place) == []


def test_an_object_that_cannot_be_deleted_stays_queued(
    inner: MemoryStore, store: OffloadStore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_store = TaskStore(store, TASK, ANN)
    task_store.set("job", 1)
    refuse = lambda self, references: dict.fromkeys(references, "no permission")  # noqa: E731
    monkeypatch.setattr(ObjectStoreBackend, "remove", refuse)

    task_store.delete("job")

    assert inner.execute(c.CountPurges()) == c.PurgeQueue(1, 1, 0, "no permission")
    assert objects(place) == ["job"]


def test_without_the_backend_an_offloaded_value_is_an_error_that_says_so(
    inner: Store, store: Store
) -> None:
    AssetStore(store, ORDERS, ANN).set("watermark", 1)
    asset_store = AssetStore(inner, ORDERS, ANN)

    for look in (asset_store.get, asset_store.entry, asset_store.history):
        with pytest.raises(BackendFailed, match="`watermark` of asset `orders` is offloaded"):
            look("watermark")
    with pytest.raises(BackendFailed, match="offloaded"):
        asset_store.items()


class Slow(MemoryStore):
    """Store whose async commands are slow, and which records what is reserved together."""

    def __init__(self) -> None:
        super().__init__()
        self.reserved: list[int] = []

    async def aexecute(self, command: c.Command[Any]) -> Any:
        await asyncio.sleep(0.01)
        if isinstance(command, c.ReserveObjects):
            self.reserved.append(len(command.objects))
        return self.execute(command)


async def test_concurrent_writers_reserve_in_one_command(backend: ObjectStoreBackend) -> None:
    inner = Slow()
    inner.execute(c.RegisterTask(TASK))
    task_store = TaskStore(OffloadStore(inner, backend), TASK, ANN)

    await asyncio.gather(*(task_store.aset(f"k{number}", number) for number in range(20)))

    assert inner.reserved == [1, 19]
    assert [value for _, value in await task_store.aitems()] == [
        number for _, number in sorted((f"k{number}", number) for number in range(20))
    ]


async def test_combined_reservations_respect_the_limit_of_a_command(
    backend: ObjectStoreBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.stores.offload.reservations.MOST_PURGES", 8)
    inner = Slow()
    inner.execute(c.RegisterTask(TASK))
    task_store = TaskStore(OffloadStore(inner, backend), TASK, ANN)

    await asyncio.gather(*(task_store.aset(f"k{number}", number) for number in range(20)))

    assert inner.reserved == [1, 8, 8, 3]
    assert len(await task_store.akeys()) == 20


async def test_the_reservations_of_a_large_set_many_are_split(backend: ObjectStoreBackend) -> None:
    inner = Slow()
    inner.execute(c.RegisterTask(TASK))
    task_store = TaskStore(OffloadStore(inner, backend), TASK, ANN)

    await task_store.aset_many({f"k{number}": number for number in range(BATCH + 1)})

    assert inner.reserved == [BATCH, 1]
    assert await task_store.aget(f"k{BATCH}") == BATCH
    assert inner.execute(c.CountPurges()) == c.PurgeQueue(0, 0, 0)


async def test_a_refused_reservation_of_one_writer_does_not_block_the_others(
    backend: ObjectStoreBackend,
) -> None:
    inner = Slow()
    inner.execute(c.RegisterTask(TASK))
    store = OffloadStore(inner, backend)
    task_store = TaskStore(store, TASK, ANN)
    await task_store.aset("busy", 1)
    inner.execute(c.Delete(TASK, "busy", ANN))
    [purge] = inner.execute(c.TakePurges(1, timedelta(minutes=1), "me")).purges

    writes = [asyncio.ensure_future(task_store.aset(key, 1)) for key in ("a", "busy", "b")]
    await asyncio.wait(writes, timeout=1)
    assert [write.done() for write in writes] == [True, False, True]
    inner.execute(c.FinishPurges("me", (purge.id,)))
    await asyncio.gather(*writes)

    assert await task_store.akeys() == ["a", "b", "busy"]


def test_a_conflict_of_a_watchers_own_write_is_not_retried_for_ever(
    tmp_path: Path, backend: ObjectStoreBackend
) -> None:
    inner = SqlStore(f"sqlite:///{tmp_path}/state.db")
    inner.execute(c.DeclareAsset("orders", "s3://lake/orders"))
    start = c.StartWatch(asset=ORDERS, watcher="files", process=this_process(), lease=MINUTE)
    watch = inner.execute(start)
    store, me = OffloadStore(inner, backend), WatcherWriter()
    for key in ("count", "cursor"):
        store.execute(c.Set(ORDERS, key, "1", me))
    writes = (c.Advance(ORDERS, "count", "5", me), c.Set(ORDERS, "cursor", "2", me, if_version=99))

    with pytest.raises(VersionConflict, match="`cursor`"):
        store.execute(c.Emit(watch, writes))

    assert store.execute(c.Get(ORDERS, "count")) == "1"
