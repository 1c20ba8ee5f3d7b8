"""Buffered writes, which their writer reads as if they were committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import commands as c
from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import HoldfastError, NotSupported, VersionConflict
from holdfast.model.entry import WatcherWriter
from holdfast.model.scope import AssetScope
from holdfast.stores.buffered import BufferedStore
from holdfast.testing.memory_store import MemoryStore

SCOPE = AssetScope(name="a", uri="a")


def store_with(values: dict[str, Any]) -> MemoryStore:
    store = MemoryStore()
    store.execute(c.DeclareAsset("a", "a"))
    AssetStore(store, SCOPE, WatcherWriter()).set_many(values)
    return store


keys = st.sampled_from("xyz")
calls = st.one_of(
    st.tuples(st.just("set"), keys, st.integers(0, 9)),
    st.tuples(st.just("advance"), keys, st.integers(0, 9)),
    st.tuples(st.just("delete"), keys),
    st.tuples(st.just("set_many"), st.dictionaries(keys, st.integers(0, 9))),
    st.tuples(st.just("clear")),
)


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except HoldfastError as error:
        return type(error)


@given(st.dictionaries(keys, st.integers(0, 9)), st.lists(calls, max_size=8))
def test_reads_and_the_final_state_are_those_of_immediate_writes(
    first: dict[str, int], steps: list[tuple[Any, ...]]
) -> None:
    direct, held = store_with(first), store_with(first)
    pending = BufferedStore(held, SCOPE)
    at_once = AssetStore(direct, SCOPE, WatcherWriter())
    later = AssetStore(pending, SCOPE, WatcherWriter())
    untouched = AssetStore(held, SCOPE, WatcherWriter())
    for name, *arguments in steps:
        expected = outcome(lambda n=name, a=arguments: getattr(at_once, n)(*a))
        assert outcome(lambda n=name, a=arguments: getattr(later, n)(*a)) == expected
        assert later.items() == at_once.items()
        assert [later.get(key) for key in "xyz"] == [at_once.get(key) for key in "xyz"]
    assert dict(untouched.items()) == first

    for write in pending.take():
        held.execute(write)

    assert untouched.items() == at_once.items()
    assert pending.take() == ()


def test_a_pending_entry_is_marked_and_has_the_current_version() -> None:
    pending = BufferedStore(store_with({"k": 1}), SCOPE)
    store = AssetStore(pending, SCOPE, WatcherWriter())
    store.set("k", 2)
    store.set("new", 3)

    entries = [store.entry(key) for key in ("k", "new")]

    assert [(one.value, one.version, one.staged) for one in entries if one] == [
        (2, 1, True),
        (3, 0, True),
    ]


def test_a_later_pending_write_keeps_if_version() -> None:
    inner = store_with({"k": 1})
    pending = BufferedStore(inner, SCOPE)
    store = AssetStore(pending, SCOPE, WatcherWriter())
    store.set("k", 2, if_version=1)
    store.set("k", 3)

    (write,) = pending.take()

    assert isinstance(write, c.Set)
    assert (write.value, write.if_version) == ("3", 1)


def test_a_failed_if_version_is_refused_at_once() -> None:
    store = AssetStore(BufferedStore(store_with({"k": 1}), SCOPE), SCOPE, WatcherWriter())

    with pytest.raises(VersionConflict, match="expected version 7, but it has version 1"):
        store.set("k", 2, if_version=7)


def test_after_a_pending_delete_the_entry_may_be_created() -> None:
    inner = store_with({"k": 1})
    pending = BufferedStore(inner, SCOPE)
    store = AssetStore(pending, SCOPE, WatcherWriter())
    store.delete("k")
    store.set("k", 5, if_version=0)

    for write in pending.take():
        inner.execute(write)

    assert inner.execute(c.Get(SCOPE, "k")) == "5"


def test_a_rewind_cannot_be_deferred_and_is_refused() -> None:
    store = AssetStore(BufferedStore(store_with({"k": 1}), SCOPE), SCOPE, WatcherWriter())

    with pytest.raises(NotSupported, match="cannot rewind"):
        store.rewind("k", version=1)


async def test_async_calls_read_pending_writes() -> None:
    store = AssetStore(BufferedStore(store_with({}), SCOPE), SCOPE, WatcherWriter())
    await store.aset("k", 1)

    assert await store.aadvance("k", 4) == 4
    assert await store.aget("k") == 4
