"""Forged references, and references below a former URL."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import commands as c
from holdfast.errors import BackendFailed, InvalidInput
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import HELD_TEXT, as_reference, reference_in
from holdfast.settings import ObjectStore
from holdfast.stores.offload.objects.backend import ObjectStoreBackend
from holdfast.stores.offload.reference_store import entries_of
from holdfast.stores.offload.store import OffloadStore
from holdfast.testing.memory_store import MemoryStore

ANN = ApiWriter("ann")
TASK = TaskScope("d", "r", "t")
VICTIM = TaskScope("d", "r", "victim")
ORDERS = AssetScope(name="orders")


@pytest.fixture
def inner() -> MemoryStore:
    store = MemoryStore()
    store.execute(c.RegisterTask(TASK))
    store.execute(c.RegisterTask(VICTIM))
    store.execute(c.DeclareAsset("orders", "s3://lake/orders"))
    return store


def over(inner: MemoryStore, url: str, *former: str) -> OffloadStore:
    return OffloadStore(inner, ObjectStoreBackend(ObjectStore(url=url, former_urls=former)))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/now"


@pytest.fixture
def other(tmp_path: Path) -> str:
    return f"file://{tmp_path}/other"


def kept(store: OffloadStore, scope: StoreScope, key: str) -> str:
    """Store a value; the reference to it."""
    store.execute(c.Set(scope, key, '"precious"', ANN))
    text = entries_of(store).execute(c.Get(scope, key))
    assert text is not None
    reference = reference_in(text)
    assert reference is not None
    return reference


def forge(inner: MemoryStore, scope: StoreScope, key: str, reference: str) -> None:
    text = as_reference(reference)
    inner.execute(c.ReserveObjects(scope, ((key, text, "forged"),), ANN))
    inner.execute(c.Set(scope, key, text, ANN, reservation="forged"))


def is_there(reference: str) -> bool:
    return Path(reference.removeprefix("file://")).exists()


@pytest.mark.parametrize("scope", [TASK, ORDERS], ids=str)
def test_a_value_below_a_url_that_is_not_configured_is_not_read(
    inner: MemoryStore, url: str, other: str, scope: StoreScope
) -> None:
    reference = kept(over(inner, other), scope, "k")
    store = over(inner, url)

    reads = c.Get(scope, "k"), c.GetEntry(scope, "k"), c.List(scope)
    for read in reads:
        with pytest.raises(BackendFailed) as sync:
            store.execute(read)
        with pytest.raises(BackendFailed) as asynchronous:
            asyncio.run(store.aexecute(read))
        assert str(sync.value) == str(asynchronous.value)
        assert reference in sync.value.message
        assert f'[object_store] former_urls = ["{other}"]' in sync.value.hint


def test_history_and_rewind_do_not_read_below_an_unconfigured_url(
    inner: MemoryStore, url: str, other: str
) -> None:
    kept(over(inner, other), ORDERS, "k")
    store = over(inner, url)
    store.execute(c.Set(ORDERS, "k", "2", ANN))

    for command in (c.History(ORDERS, "k"), c.Rewind(ORDERS, "k", c.ToVersion(1), ANN)):
        with pytest.raises(BackendFailed, match="former_urls"):
            store.execute(command)
    assert store.execute(c.Get(ORDERS, "k")) == "2"


@pytest.mark.parametrize("former", ["file://{}/other", "file://{}", "file://{}/now/deeper"])
def test_after_a_change_of_url_objects_below_a_former_one_are_read_rewound_and_purged(
    inner: MemoryStore, url: str, tmp_path: Path, former: str
) -> None:
    former = former.format(tmp_path)
    references = [kept(over(inner, former), scope, "k") for scope in (TASK, ORDERS)]
    store = over(inner, url, former)

    assert store.execute(c.Get(TASK, "k")) == '"precious"'
    assert store.execute(c.Get(AssetScope(uri="s3://lake/orders"), "k")) == '"precious"'
    [version] = store.execute(c.History(ORDERS, "k"))
    assert version.value == '"precious"'
    store.execute(c.Set(ORDERS, "k", '"new"', ANN))
    store.execute(c.Rewind(ORDERS, "k", c.ToVersion(version.version), ANN))
    assert store.execute(c.Get(ORDERS, "k")) == '"precious"'
    store.execute(c.Delete(TASK, "k", ANN))
    inner.execute(c.DeleteAsset(ORDERS))
    store.purge()
    assert not any(map(is_there, references))
    assert inner.execute(c.CountPurges()).waiting == 0


def test_a_former_url_may_be_of_another_kind(inner: MemoryStore, url: str) -> None:
    kept(over(inner, "memory://former"), TASK, "k")

    assert over(inner, url, "memory://former").execute(c.Get(TASK, "k")) == '"precious"'
    with pytest.raises(BackendFailed, match="former_urls"):
        over(inner, url).execute(c.Get(TASK, "k"))


def test_an_object_below_another_url_is_kept_and_the_purge_error_names_the_setting(
    inner: MemoryStore, url: str, other: str, caplog: pytest.LogCaptureFixture
) -> None:
    reference = kept(over(inner, other), TASK, "k")
    store = over(inner, url)

    store.execute(c.Delete(TASK, "k", ANN))
    queue = inner.execute(c.CountPurges())

    assert is_there(reference)
    assert (queue.waiting, queue.failing) == (1, 1)
    assert reference in queue.error
    assert f'former_urls = ["{other}"]' in queue.error
    assert "former_urls" in caplog.text
    assert over(inner, url, other).purge(retry=True).gone == 1
    assert not is_there(reference)


def test_an_object_below_a_prefix_of_another_store_is_neither_read_nor_deleted(
    inner: MemoryStore, tmp_path: Path
) -> None:
    reference = kept(over(MemoryStoreWithTasks(), f"file://{tmp_path}/staging"), TASK, "k")
    store = over(inner, f"file://{tmp_path}")
    forge(inner, TASK, "k", reference)

    with pytest.raises(BackendFailed, match="former_urls"):
        store.execute(c.Get(TASK, "k"))
    store.execute(c.Delete(TASK, "k", ANN))
    inner.execute(c.QueueObjects(((TASK, "k", as_reference(reference)),)))
    store.purge(retry=True)

    assert is_there(reference)


class MemoryStoreWithTasks(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.execute(c.RegisterTask(TASK))


@pytest.mark.parametrize("scope", [TASK, ORDERS], ids=str)
def test_an_object_of_another_key_or_scope_is_not_read(
    inner: MemoryStore, url: str, scope: StoreScope
) -> None:
    store = over(inner, url)
    reference = kept(store, VICTIM, "secret")
    forge(inner, scope, "secret", reference)

    with pytest.raises(BackendFailed) as refused:
        store.execute(c.Get(scope, "secret"))

    assert f"{reference} is not an object of `secret` of " in refused.value.message
    store.execute(c.Delete(scope, "secret", ANN))
    assert store.execute(c.Get(VICTIM, "secret")) == '"precious"'


def test_the_hooks_of_the_backend_read_only_below_the_urls(url: str, other: str) -> None:
    there, both = ObjectStore(url=other), ObjectStore(url=url, former_urls=(other,))
    reference = ObjectStoreBackend(there).serialize_asset_store_to_ref(
        value=1, key="k", asset_ref="orders"
    )

    assert ObjectStoreBackend(both).deserialize_asset_store_from_ref(reference) == 1
    with pytest.raises(BackendFailed, match="former_urls"):
        ObjectStoreBackend(ObjectStore(url=url)).deserialize_asset_store_from_ref(reference)
    with pytest.raises(BackendFailed, match="former_urls"):
        ObjectStoreBackend(ObjectStore(url="memory://")).deserialize_asset_store_from_ref(reference)


@pytest.mark.parametrize("scope", [TASK, ORDERS], ids=str)
def test_the_marker_of_a_staged_value_is_not_stored_as_a_value(scope: StoreScope) -> None:
    writer = TaskWriter(TASK, 1)

    with pytest.raises(InvalidInput, match="`k` of .* is the marker of a staged value"):
        c.Set(scope, "k", HELD_TEXT, writer)
    with pytest.raises(InvalidInput, match="`k` of .* is the marker of a staged value"):
        c.SetMany(scope, (("j", "1"), ("k", HELD_TEXT)), writer)
    c.Set(ORDERS, "k", HELD_TEXT, writer, on_success=True)
