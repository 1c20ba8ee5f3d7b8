"""Answers with large values: read from the database and sent in parts."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from holdfast import command as c
from holdfast import paging
from holdfast.entry import ApiWriter, Found
from holdfast.scope import AssetScope, StoreScope, TaskScope
from holdfast.store import Store
from holdfast.stores.sql import SqlStore

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")
KEYS = [f"{number:02}" for number in range(20)]
LARGE = f'"{"é" * 500_000}"'


@pytest.fixture(params=[TASK, ORDERS], ids=["task", "asset"])
def scope(request: pytest.FixtureRequest, store: Store) -> StoreScope:
    store.execute(c.RegisterTask(TASK))
    store.execute(c.DeclareAsset("orders"))
    return request.param  # type: ignore[no-any-return]


def keys(found: tuple[Found, ...]) -> list[str]:
    return [one.entry.key for one in found]


def test_a_page_ends_with_the_value_that_exceeds_its_size(store: Store, scope: StoreScope) -> None:
    value = '"ü2345678"'
    for key in KEYS[:5]:
        store.execute(c.Set(scope, key, value, ANN))
    command = c.List(scope, limit=10, max_size=2 * len(value))

    page = store.execute(command)
    last = page.found[-1].scope, page.found[-1].entry.key
    rest = store.execute(msgspec.structs.replace(command, after=last))

    assert (keys(page.found), page.total, page.more) == (KEYS[:3], 5, True)
    assert {one.entry.value for one in page.found} == {value}
    assert (keys(rest.found), rest.total, rest.more) == (KEYS[3:5], 2, False)


def test_a_list_of_large_values_is_complete(
    store: Store, scope: StoreScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "LARGEST_PAGE", 50)
    texts = tuple((key, f'"{"v" * number}"') for number, key in enumerate(KEYS))
    store.execute(c.SetMany(scope, texts, ANN))

    everything = store.execute(c.List(scope))
    some = store.execute(c.List(scope, limit=12, offset=3))

    assert (keys(everything.found), everything.total) == (KEYS, 20)
    assert (keys(some.found), some.total) == (KEYS[3:15], 20)
    assert all(page.more is False for page in (everything, some))


def test_a_page_of_large_values_does_not_hold_them_all_in_memory(
    store: Store, scope: StoreScope
) -> None:
    if not isinstance(store, SqlStore):
        pytest.skip("memory is measured where the database is read")
    for key in KEYS:
        store.execute(c.Set(scope, key, LARGE, ANN))
    command = c.List(scope, limit=1000, max_size=1_000_000)
    store.execute(command)

    tracemalloc.start()
    page = store.execute(command)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (keys(page.found), page.total) == (KEYS[:2], 20)
    assert peak < 12 * len(LARGE)
