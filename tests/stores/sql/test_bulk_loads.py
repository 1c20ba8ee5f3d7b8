"""Bulk loads with concurrent writers, and larger than one statement."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from holdfast import commands as c
from holdfast.commands import AddToLoad, FinishLoad, ScopeEntries, StartLoad
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.stores.sql import SqlStore

ANN, BOB = ApiWriter("ann"), ApiWriter("bob")
TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")
LOADS = 5
WRITES = 40


def load(store: SqlStore, name: str, *lots: ScopeEntries, parts: int = 1) -> int:
    """Load these lots, once in each part."""
    store.execute(StartLoad(name, ANN))
    for part in range(parts):
        store.execute(AddToLoad(name, part, 0, lots, ANN))
    size = sum(len(lot.entries) for lot in lots)
    return store.execute(FinishLoad(name, tuple((part, size) for part in range(parts)), ANN))


def test_a_load_with_a_concurrent_writer_assigns_no_version_twice(database_url: str) -> None:
    with SqlStore(database_url, history_limit=1000) as store:
        store.execute(c.DeclareAsset(name="orders"))
        lot = ScopeEntries(ORDERS, (("shared", '"loaded"', None), ("loaded", "1", None)))

        def write() -> None:
            for n in range(WRITES):
                store.execute(c.Set(ORDERS, "shared", str(n), BOB))

        with ThreadPoolExecutor(2) as pool:
            writing = pool.submit(write)
            for n in range(LOADS):
                load(store, f"load {n}", lot)
            writing.result()

        steps = store.execute(c.History(ORDERS, "shared"))
        assert len(steps) == LOADS + WRITES
        assert [step.previous for step in steps] == [step.version for step in steps[1:]] + [0]
        assert sum(step.writer == ANN for step in steps) == LOADS


def test_two_concurrent_loads_of_the_same_scopes_both_succeed(database_url: str) -> None:
    scopes = [TaskScope("sales", "monday", "load", index) for index in range(50)]
    lots = [ScopeEntries(scope, (("k", "1", None),)) for scope in scopes]
    with SqlStore(database_url) as store, ThreadPoolExecutor(2) as pool:
        first = pool.submit(load, store, "first", *lots)
        second = pool.submit(load, store, "second", *reversed(lots))

        assert (first.result(), second.result()) == (50, 50)

        found = store.execute(c.List(c.TaskFilter())).found
        assert [each.entry.version for each in found] == [2] * 50


def test_a_load_is_written_slice_by_slice(database_url: str) -> None:
    entries = tuple((f"{n:05}", str(n), None) for n in range(20_500))
    with SqlStore(database_url) as store:
        assert load(store, "large", ScopeEntries(TASK, entries)) == 20_500

        page = store.execute(c.List(TASK, limit=1, offset=20_400))
        assert page.total == 20_500
        assert page.found[0].entry.value == "20400"
        assert page.found[0].entry.version == 1
