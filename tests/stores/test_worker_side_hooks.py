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
)

from holdfast import command as c
from holdfast.accessor import AssetStore, TaskStore
from holdfast.entry import ApiWriter
from holdfast.errors import BackendFailed
from holdfast.scope import AssetScope, TaskScope
from holdfast.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.offload import OffloadStore
from holdfast.testing import MakeStore
from holdfast.testing.conformance.assets import Declarations, Deletion
from holdfast.testing.conformance.cleanup import Cleanup
from holdfast.testing.conformance.content import Content
from holdfast.testing.conformance.entries import Entries
from holdfast.testing.conformance.expiry import Expiry
from holdfast.testing.conformance.listing import Listing
from holdfast.testing.conformance.watermarks import Watermarks

SPELLINGS = [CanonicalHooks, AirflowHooks, DraftReferenceHooks, DraftValueHooks]
ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")


class OffloadConformance(
    Entries, Content, Listing, Expiry, Cleanup, Watermarks, Declarations, Deletion
):
    """What holds although objects are overwritten in place: a refused write may have replaced one,
    so the tests of versions, attempts and staging do not apply."""

    spelling: type[Any]
    test_values_are_kept_verbatim = None  # hooks deal in values, not in their text
    test_an_inactive_asset_cannot_be_written = None  # it looks at a value that was replaced

    @pytest.fixture
    def make_store(self) -> MakeStore:
        return lambda clock: OffloadStore(MemoryStore(clock=clock), self.spelling())


class TestCanonicalHooks(OffloadConformance):
    spelling = CanonicalHooks


class SpellingConformance(Entries):
    """The others differ in how the hooks are called, and in nothing else."""

    spelling: type[Any]
    test_values_are_kept_verbatim = None

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


def test_only_a_reference_goes_inward(
    inner: Store, backend: Any, task_store: TaskStore, asset_store: AssetStore
) -> None:
    task_store.set("job", {"id": "app_1"})
    asset_store.set("watermark", "2026-01-01")

    assert "app_1" not in str(inner.execute(c.Get(TASK, "job")))
    assert "2026" not in str(inner.execute(c.Get(ORDERS, "watermark")))
    assert len(backend.objects) == 2
    assert task_store.get("job") == {"id": "app_1"}
    assert asset_store.get("watermark") == "2026-01-01"


def test_a_second_write_uses_the_same_reference(backend: Any, task_store: TaskStore) -> None:
    task_store.set("job", 1)
    task_store.set("job", 2)

    assert len(backend.objects) == 1
    assert task_store.get("job") == 2


def test_a_value_from_before_the_backend_reads_back_as_itself(
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


def test_a_class_without_hooks_leaves_values_where_they_are(inner: Store) -> None:
    store = TaskStore(OffloadStore(inner, DictBackend()), TASK, ANN)

    store.set("job", 1)

    assert inner.execute(c.Get(TASK, "job")) == "1"
    assert store.get("job") == 1
