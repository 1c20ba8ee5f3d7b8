"""Worker-side backends in each spelling, unmodified, over a store that holds only references."""

from __future__ import annotations

from typing import Any

import pytest
from dict_backends import (
    AirflowHooks,
    CanonicalHooks,
    DictBackend,
    DraftReferenceHooks,
    DraftValueHooks,
    HooksOnly,
)

from holdfast import commands as c
from holdfast.accessor.asset_store import AssetStore
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import BackendFailed, NotSupported, ObjectBusy, ValueTooLarge
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import as_reference, reference_in
from holdfast.store import Store
from holdfast.stores.backend.base import BaseStoreBackend
from holdfast.stores.offload.hook_names import WorkerHooks
from holdfast.stores.offload.store import OffloadStore
from holdfast.stores.sql import SqlStore
from holdfast.testing import MakeStore
from holdfast.testing.conformance.assets import Declarations, Deletion
from holdfast.testing.conformance.cleanup import Cleanup
from holdfast.testing.conformance.content import Content
from holdfast.testing.conformance.entries import Entries
from holdfast.testing.conformance.expiry import Expiry
from holdfast.testing.conformance.listing import Listing
from holdfast.testing.conformance.watermarks import Watermarks
from holdfast.testing.memory_store import MemoryStore

SPELLINGS = [CanonicalHooks, AirflowHooks, DraftReferenceHooks, DraftValueHooks]
ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")


class HooksConformance(
    Entries, Content, Listing, Expiry, Cleanup, Watermarks, Declarations, Deletion
):
    """Tests that apply although objects are overwritten in place: a refused write may have replaced
    one, so those of versions, attempts and staging do not."""

    spelling: type[Any]
    gaps = (c.History,)
    differs = {"test_values_are_stored_verbatim": "hooks deal in values, not in their text"}

    @pytest.fixture
    def make_store(self) -> MakeStore:
        return lambda clock: OffloadStore(MemoryStore(clock=clock), self.spelling())


class TestCanonicalHooks(HooksConformance):
    spelling = CanonicalHooks


class SpellingConformance(Entries):
    """Tests of the other spellings, which differ only in how the hooks are called."""

    spelling: type[Any]
    differs = {"test_values_are_stored_verbatim": "hooks deal in values, not in their text"}

    @pytest.fixture
    def make_store(self) -> MakeStore:
        return lambda clock: OffloadStore(MemoryStore(clock=clock), self.spelling())


class TestAirflowHooks(SpellingConformance):
    spelling = AirflowHooks


class TestDraftReferenceHooks(SpellingConformance):
    spelling = DraftReferenceHooks


class TestDraftValueHooks(SpellingConformance):
    spelling = DraftValueHooks


@pytest.fixture
def inner() -> Store:
    store = MemoryStore()
    store.execute(c.RegisterTask(TASK))
    store.execute(c.DeclareAsset("orders"))
    return store


@pytest.fixture(params=SPELLINGS, ids=lambda spelling: spelling.__name__)
def backend(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture
def task_store(inner: Store, backend: Any) -> TaskStore:
    return TaskStore(OffloadStore(inner, backend), TASK, ANN)


@pytest.fixture
def asset_store(inner: Store, backend: Any) -> AssetStore:
    return AssetStore(OffloadStore(inner, backend), ORDERS, ANN)


def test_the_inner_store_gets_only_a_reference(
    inner: Store, backend: Any, task_store: TaskStore, asset_store: AssetStore
) -> None:
    task_store.set("job", {"id": "app_1"})
    asset_store.set("watermark", "2026-01-01")

    assert "app_1" not in str(inner.execute(c.Get(TASK, "job")))
    assert "2026" not in str(inner.execute(c.Get(ORDERS, "watermark")))
    assert len(backend.objects) == 2
    assert task_store.get("job") == {"id": "app_1"}
    assert asset_store.get("watermark") == "2026-01-01"


def test_a_value_over_the_limit_is_neither_written_nor_read(inner: Store, backend: Any) -> None:
    unlimited = TaskStore(OffloadStore(inner, backend), TASK, ANN)
    limited = OffloadStore(inner, backend, max_value_bytes=100)
    unlimited.set("k", "x" * 99)
    reference = reference_in(inner.execute(c.Get(TASK, "k")) or "")
    assert reference is not None

    with pytest.raises(BackendFailed) as read:
        limited.execute(c.Get(TASK, "k"))
    with pytest.raises(ValueTooLarge, match=f"`k` of {TASK}: the value has 101 bytes"):
        TaskStore(limited, TASK, ANN).set("k", "y" * 99)

    assert reference in read.value.message
    assert "a value of 101 bytes as JSON; the limit is 100" in read.value.message
    assert "max_value_bytes" in read.value.hint
    assert unlimited.get("k") == "x" * 99


def test_a_second_write_uses_the_same_reference(backend: Any, task_store: TaskStore) -> None:
    task_store.set("job", 1)
    task_store.set("job", 2)

    assert len(backend.objects) == 1
    assert task_store.get("job") == 2


def test_a_value_written_before_the_backend_is_read_unchanged(
    inner: Store, task_store: TaskStore
) -> None:
    TaskStore(inner, TASK, ANN).set("job", {"id": "app_1"})

    assert task_store.get("job") == {"id": "app_1"}


@pytest.mark.parametrize(
    "lookalike",
    [
        {"__holdfast_ref__": "task/1"},
        {"__holdfast_value__": {"__holdfast_ref__": "task/1"}},
        {"__holdfast_value__": 1},
        ["__holdfast_ref__"],
        "__holdfast_ref__",
        {"a": {"__holdfast_ref__": "task/1"}},
    ],
)
def test_a_value_that_looks_like_a_reference_is_still_a_value(
    inner: Store, task_store: TaskStore, lookalike: Any
) -> None:
    TaskStore(inner, TASK, ANN).set("before", lookalike)
    task_store.set("after", lookalike)

    assert task_store.get("before") == lookalike
    assert task_store.get("after") == lookalike
    assert task_store.items() == [("after", lookalike), ("before", lookalike)]


@pytest.mark.parametrize("spelling", [CanonicalHooks, AirflowHooks, DraftValueHooks])
def test_delete_and_clear_remove_the_objects(inner: Store, spelling: type[Any]) -> None:
    backend = spelling()
    store = OffloadStore(inner, backend)
    task_store, asset_store = TaskStore(store, TASK, ANN), AssetStore(store, ORDERS, ANN)
    task_store.set_many({"a": 1, "b": 2})
    asset_store.set_many({"a": 1, "b": 2})

    task_store.delete("a")
    asset_store.delete("a")
    assert len(backend.objects) == 2

    task_store.clear()
    asset_store.clear()
    assert backend.objects == {}


class Recorded(CanonicalHooks):
    """Records which of the two methods is called to delete objects."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []

    def delete(self, scope: StoreScope, key: str, **options: Any) -> None:
        self.calls.append(("delete", scope, key))
        super().delete(scope, key)

    def clear(self, scope: StoreScope, **options: Any) -> None:
        self.calls.append(("clear", scope, options))
        super().clear(scope, **options)


def test_clear_calls_the_clear_of_the_backend(inner: Store) -> None:
    backend = Recorded()
    store = OffloadStore(inner, backend)
    for accessor in (TaskStore(store, TASK, ANN), AssetStore(store, ORDERS, ANN)):
        accessor.set_many({"a": 1, "b": 2, "c": 3})
        accessor.delete("c")
        accessor.clear()

    assert backend.calls == [
        ("delete", TASK, "c"),
        ("clear", TASK, {}),
        ("delete", ORDERS, "c"),
        ("clear", ORDERS, {}),
    ]
    assert backend.objects == {}
    assert inner.execute(c.CountPurges()) == c.PurgeQueue(0, 0, 0)


async def test_aclear_calls_the_clear_of_the_backend(inner: Store) -> None:
    backend = Recorded()
    task_store = TaskStore(OffloadStore(inner, backend), TASK, ANN)
    await task_store.aset("a", 1)

    await task_store.aclear()

    assert backend.calls == [("clear", TASK, {})]


def test_the_success_that_clears_the_task_store_calls_the_clear_of_the_backend(
    inner: Store,
) -> None:
    backend = Recorded()
    store = OffloadStore(inner, backend)
    writer = TaskWriter(TASK, inner.execute(c.StartAttempt(TASK)))
    TaskStore(store, TASK, writer).set("a", 1)

    store.execute(c.FinishAttempt(writer, True, clear=True))

    assert backend.calls == [("clear", TASK, {})]


def test_clear_of_every_map_index_is_forwarded(inner: Store) -> None:
    backend = AirflowHooks()
    store = OffloadStore(inner, backend)
    mapped = [TaskScope("sales", "monday", "each", index) for index in (0, 1)]
    for scope in mapped:
        inner.execute(c.RegisterTask(scope))
        TaskStore(store, scope, ANN).set("a", 1)

    TaskStore(store, mapped[1], ANN).clear(all_map_indices=True)

    assert backend.objects == {}
    assert inner.execute(c.CountPurges()).waiting == 0


def test_without_clear_in_the_backend_each_key_is_deleted(inner: Store) -> None:
    backend = Recorded()
    store = OffloadStore(inner, backend)
    mapped = TaskScope("sales", "monday", "each", 0)
    inner.execute(c.RegisterTask(mapped))
    TaskStore(store, mapped, ANN).set("a", 1)

    TaskStore(store, mapped, ANN).clear(all_map_indices=True)

    assert backend.calls == [
        ("clear", mapped, {"all_map_indices": True}),
        ("delete", mapped, "a"),
    ]
    assert backend.objects == {}


def test_clear_does_not_wait_for_objects_reserved_by_another_writer(inner: Store) -> None:
    backend = Recorded()
    asset_store = AssetStore(OffloadStore(inner, backend), ORDERS, ANN)
    asset_store.set("a", 1)
    inner.execute(c.ReserveObjects(ORDERS, (("b", "", "other"),), ANN))

    asset_store.clear()

    assert backend.calls == [("delete", ORDERS, "a")]


def test_a_writer_waits_while_the_backend_clears(inner: Store) -> None:
    class Writes(Recorded):
        def clear(self, scope: StoreScope, **options: Any) -> None:
            with pytest.raises(ObjectBusy):
                inner.execute(c.ReserveObjects(ORDERS, (("new", "", "other"),), ANN))
            super().clear(scope, **options)

    backend = Writes()
    asset_store = AssetStore(OffloadStore(inner, backend), ORDERS, ANN)
    asset_store.set("a", 1)

    asset_store.clear()

    assert backend.calls == [("clear", ORDERS, {})]
    asset_store.set("new", 2)
    assert asset_store.get("new") == 2


class FailsToClear(CanonicalHooks):
    def clear(self, scope: StoreScope, **options: Any) -> None:
        raise OSError("bucket on fire")


def test_a_clear_that_fails_leaves_the_objects_in_the_queue(inner: Store) -> None:
    task_store = TaskStore(OffloadStore(inner, FailsToClear()), TASK, ANN)
    task_store.set_many({"a": 1, "b": 2})

    task_store.clear()

    queue = inner.execute(c.CountPurges())
    assert (queue.waiting, queue.failing) == (2, 2)
    assert "FailsToClear.clear of task sales/monday/load failed: OSError: bucket on fire" in (
        queue.error
    )


class NoDelete(CanonicalHooks):
    def delete(self, scope: StoreScope, key: str, **options: Any) -> None:
        raise NotImplementedError

    clear = None  # type: ignore[assignment]


class NoMethods(CanonicalHooks):
    delete = clear = None  # type: ignore[assignment]


class NoPurge(DraftValueHooks):
    purge_task_state = HooksOnly.purge_task_state


class CannotPurge(DraftValueHooks):
    def purge_task_state(self, stored: str) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("spelling", "method"),
    [
        (NoDelete, "NoDelete does not implement delete()"),
        (NoMethods, "NoMethods does not implement delete()"),
        (DraftReferenceHooks, "DraftReferenceHooks does not implement delete()"),
        (NoPurge, "NoPurge does not implement delete()"),
        (CannotPurge, "CannotPurge does not implement purge_task_state()"),
    ],
)
def test_a_missing_method_is_logged_once_and_the_objects_stay_queued(
    inner: Store, spelling: type[Any], method: str, caplog: pytest.LogCaptureFixture
) -> None:
    task_store = TaskStore(OffloadStore(inner, spelling()), TASK, ANN)
    task_store.set_many({"a": 1, "b": 2, "c": 3})

    task_store.delete("a")
    task_store.delete("b")
    task_store.clear()

    queue = inner.execute(c.CountPurges())
    assert (queue.waiting, queue.failing) == (3, 3)
    assert method in queue.error
    assert [method in record.getMessage() for record in caplog.records] == [True]


class SmallInline(DictBackend):
    """Keeps small values inline, by calling the base class."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, Any] = {}

    def serialize_task_state_store_to_ref(self, *, value: Any, key: str, scope: TaskScope) -> str:
        if len(value) < 10:
            return super().serialize_task_state_store_to_ref(value=value, key=key, scope=scope)
        self.objects[key] = value
        return key

    def deserialize_task_state_store_from_ref(self, stored: str) -> Any:
        if stored in self.objects:
            return self.objects[stored]
        return super().deserialize_task_state_store_from_ref(stored)


def test_a_hook_may_call_the_base_class(inner: Store) -> None:
    backend = SmallInline()
    task_store = TaskStore(OffloadStore(inner, backend), TASK, ANN)

    task_store.set_many({"small": "s", "large": "l" * 10})

    assert task_store.items() == [("large", "l" * 10), ("small", "s")]
    assert backend.objects == {"large": "l" * 10}


@pytest.mark.parametrize("scope", [TASK, ORDERS], ids=["task", "asset"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_hooks_of_the_base_class_return_values_unchanged(
    spelling: type[Any], scope: StoreScope
) -> None:
    own = [name for name in vars(spelling) if name.startswith(("serialize_", "deserialize_"))]
    defaults = {name: getattr(BaseStoreBackend, name) for name in own}
    hooks = WorkerHooks(type("Inherits", (spelling,), defaults)())

    assert not hooks.offloads(scope)
    assert hooks.deserialize(scope, hooks.serialize(scope, "k", {"a": 1})) == {"a": 1}


class OnlyReads(DictBackend):
    """Has only the hook that reads, for values that another class has written."""

    def deserialize_task_state_store_from_ref(self, stored: str) -> Any:
        return f"the object at {stored}"


def test_a_class_may_define_only_some_hooks(inner: Store) -> None:
    inner.execute(c.Set(TASK, "old", as_reference("there", in_place=True), ANN))
    task_store = TaskStore(OffloadStore(inner, OnlyReads()), TASK, ANN)
    asset_store = AssetStore(OffloadStore(inner, OnlyReads()), ORDERS, ANN)

    task_store.set("new", 1)
    asset_store.set("new", 2)

    assert task_store.get("old") == "the object at there"
    assert (task_store.get("new"), asset_store.get("new")) == (1, 2)
    assert inner.execute(c.Get(TASK, "new")) == "1"


def test_a_missing_object_is_an_error_that_names_the_reference(
    backend: Any, task_store: TaskStore
) -> None:
    task_store.set("job", 1)
    [reference] = backend.objects
    backend.objects.clear()

    with pytest.raises(BackendFailed) as caught:
        task_store.get("job")

    assert reference in caught.value.message


class FailsToStore(CanonicalHooks):
    def serialize_task_store_to_ref(self, **options: Any) -> str:
        raise OSError("bucket on fire")


class ReturnsNoText(CanonicalHooks):
    def serialize_task_store_to_ref(self, **options: Any) -> Any:
        return {"place": 1}


@pytest.mark.parametrize(
    ("broken", "reason"), [(FailsToStore, "on fire"), (ReturnsNoText, "not text")]
)
def test_a_hook_that_fails_leaves_the_entry_as_it_was(
    inner: Store, broken: type[Any], reason: str
) -> None:
    TaskStore(inner, TASK, ANN).set("job", 1)
    store = TaskStore(OffloadStore(inner, broken()), TASK, ANN)

    with pytest.raises(BackendFailed, match=reason):
        store.set("job", 2)

    assert store.get("job") == 1


def test_a_class_without_hooks_leaves_values_inline(inner: Store) -> None:
    store = TaskStore(OffloadStore(inner, DictBackend()), TASK, ANN)

    store.set("job", 1)

    assert inner.execute(c.Get(TASK, "job")) == "1"
    assert store.get("job") == 1


class OnlyTasks(DictBackend):
    """Offloads values of tasks, and leaves those of assets inline."""

    def serialize_task_store_to_ref(self, *, value: Any, key: str, ti_id: str) -> str:
        return f"{ti_id}/{key}"


def test_a_staged_value_that_stays_inline_takes_effect(inner: Store) -> None:
    store = OffloadStore(inner, OnlyTasks())
    writer = TaskWriter(TASK, store.execute(c.StartAttempt(TASK)))
    store.execute(c.Set(ORDERS, "watermark", "7", writer, on_success=True))

    store.execute(c.FinishAttempt(writer, succeeded=True))

    assert inner.execute(c.Get(ORDERS, "watermark")) == "7"


def test_an_older_part_of_a_history_does_not_show_the_new_value(inner: Store) -> None:
    store = OffloadStore(inner, CanonicalHooks())
    store.execute(c.Set(ORDERS, "cursor", "1", ANN))
    newest = store.execute(c.Set(ORDERS, "cursor", "2", ANN))

    with pytest.raises(NotSupported, match="keeps no old values of `cursor`"):
        store.execute(c.History(ORDERS, "cursor", before=newest))


class FailsWithBinary(CanonicalHooks):
    def delete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        raise ValueError("cannot parse \0\udcff\n")


def test_a_reason_that_no_database_can_store_is_shortened_to_one_that_it_can(
    database_url: str,
) -> None:
    with SqlStore(database_url) as inner:
        inner.execute(c.RegisterTask(TASK))
        store = OffloadStore(inner, FailsWithBinary())
        store.execute(c.Set(TASK, "k", "1", ANN))

        store.execute(c.Delete(TASK, "k", ANN))

        queue = inner.execute(c.CountPurges())
    assert (queue.failing, queue.error) == (1, "ValueError: cannot parse")
