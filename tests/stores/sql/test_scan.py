"""Scans of whole tables of the store: slices, ranges, conditions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from remembered import record, remember

from holdfast import Connection
from holdfast import commands as c
from holdfast.errors import InvalidInput
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.portable.report_tables import TABLES
from holdfast.stores.sql import SqlStore

START = datetime(2026, 1, 1, tzinfo=UTC)
ANNA = ApiWriter("anna")
LOAD, CHECK = TaskScope("etl", "monday", "load"), TaskScope("etl", "monday", "check", 3)
ORDERS = AssetScope(name="orders")


@pytest.fixture
def store(database_url: str) -> Iterator[SqlStore]:
    with SqlStore(database_url, clock=lambda: START) as store:
        store.execute(c.RegisterTask(LOAD))
        store.execute(c.RegisterTask(CHECK))
        store.execute(c.DeclareAsset("orders", "s3://orders"))
        yield store


def read(store: SqlStore, table: str, *columns: str, **more: Any) -> list[tuple[Any, ...]]:
    scan = c.Scan(table=table, columns=columns or tuple(TABLES[table]), **{"limit": 99, **more})
    return list(zip(*store.execute(scan).columns, strict=True))


def keys(store: SqlStore, *tests: c.Test) -> list[str]:
    return sorted(key for (key,) in read(store, "task_store", "key", tests=tests))


def test_each_table_has_its_columns(store: SqlStore) -> None:
    expires = START + timedelta(days=1)
    store.execute(c.Set(CHECK, "rows", "12", TaskWriter(CHECK), expires))
    store.execute(c.Set(LOAD, "note", '"ä"', ANNA))
    store.execute(c.Set(ORDERS, "until", "1", TaskWriter(LOAD)))
    store.execute(c.Delete(ORDERS, "until", ANNA))
    store.execute(c.Set(ORDERS, "until", "2", ANNA))
    now, later = 1_767_225_600_000_000, 1_767_312_000_000_000
    by_anna = '{"kind":"api","user":"anna"}'
    [(asset_id,)] = read(store, "asset_store", "asset_id")
    asset = (asset_id, "orders", "s3://orders")

    entries = read(store, "task_store")
    history = read(store, "asset_history")

    assert sorted(entries) == [
        ("etl", "monday", "check", 3, "rows", "12", 1, now, later, None),
        ("etl", "monday", "load", -1, "note", '"ä"', 1, now, None, by_anna),
    ]
    assert read(store, "asset_store") == [(*asset, "until", "2", 3, now, by_anna)]
    assert [row[4:8] for row in history] == [(1, 0, "1", now), (2, 1, None, now), (3, 2, "2", now)]
    assert read(store, "runs") == [
        ("etl", "monday", "external", "idle", None, None, None, "{}", now, None, None)
    ]
    assert sorted(read(store, "task_instances", "task_id", "map_index", "state", "attempt")) == [
        ("check", 3, None, 0),
        ("load", -1, None, 0),
    ]


def test_loads_are_read_with_the_parts_of_their_records(store: SqlStore) -> None:
    orders = Connection(store).asset_store(name="orders")
    orders.set("watermark/load", "the user's own")
    orders.set("Watermark/LOAD", record(0, 1))
    remember(orders, 20)
    directories = ["/lake/load=1"]
    remember(orders, 30, rows=None, directories=directories, checks={"unique id": 2}, beyond=4)
    orders.delete("watermark/load")
    remember(orders, "ü", key="late", **{"from": "ä", "type": "string", "kind": "backfill"})
    orders.set("note/load", "the user's own")
    started = 1_769_835_600_000_000

    shown = ("key", "number", "kind", "from", "to", "rows", "beyond", "started_at", "seconds")

    assert read(store, "loads", *shown) == [
        ("late", 0, "backfill", "ä", "ü", 10, 0, started, 1.5),
        ("watermark", 0, "load", None, "20", 10, 0, started, 1.5),
        ("watermark", 1, "load", None, "30", None, 4, started, 1.5),
    ]
    assert read(store, "last_loads", "key", "to") == [("late", "ü")]
    assert read(store, "loads", "checks", "directories", "asset", "version")[2] == (
        '{"unique id":2}',
        '["/lake/load=1"]',
        "orders",
        4,
    )
    for found in (
        (c.Test("key", "=", ("watermark",)), c.Test("version", ">", (3,))),
        (c.Test("key", "starts", ("water",)), c.Test("version", "in", (4, 5))),
    ):
        assert read(store, "loads", "number", tests=found) == [(1,)]


def test_slices_of_loads_continue_after_entries_that_are_not_loads(store: SqlStore) -> None:
    orders = Connection(store).asset_store(name="orders")
    for number in range(3):
        orders.set("watermark/load", "the user's own")
        remember(orders, number)
    seen: list[Any] = []
    after: tuple[Any, ...] | None = ()

    while after is not None:
        scan = c.Scan(table="loads", columns=("to",), after=after, limit=1)
        part = store.execute(scan)
        seen += part.columns[0]
        after = part.last

    assert seen == ["0", "1", "2"]


def test_expired_entries_are_not_read(store: SqlStore) -> None:
    store.execute(c.Set(LOAD, "gone", "1", ANNA, START))
    store.execute(c.Set(LOAD, "there", "1", ANNA, START + timedelta(microseconds=1)))

    assert keys(store) == ["there"]


def test_a_value_that_looks_escaped_is_read_as_it_was_written(store: SqlStore) -> None:
    store.execute(c.Set(LOAD, "k", '{"__holdfast_value__":{"__holdfast_ref__":"x"}}', ANNA))

    assert read(store, "task_store", "value") == [('{"__holdfast_ref__":"x"}',)]


def test_rows_are_found_by_every_condition(store: SqlStore) -> None:
    for key in ("A", "a", "a_b", "aä", "b"):
        store.execute(c.Set(LOAD, key, "1", ANNA))
    store.execute(c.Set(CHECK, "z", "1", ANNA, START + timedelta(days=1)))

    assert keys(store, c.Test("key", "=", ("a",))) == ["a"]
    assert keys(store, c.Test("key", "in", ("a", "b", "c"))) == ["a", "b"]
    assert keys(store, c.Test("key", "starts", ("a",))) == ["a", "a_b", "aä"]
    assert keys(store, c.Test("key", "<", ("a",))) == ["A"]
    assert keys(store, c.Test("key", ">=", ("aä",))) == ["aä", "b", "z"]
    assert keys(store, c.Test("map_index", ">", (-1,))) == ["z"]
    assert keys(store, c.Test("expires_at", "not null")) == ["z"]
    assert keys(store, c.Test("expires_at", "null"), c.Test("key", "<=", ("a",))) == ["A", "a"]


def test_ranges_cover_every_row_once(store: SqlStore) -> None:
    writer = TaskWriter(LOAD)
    store.execute(c.SetMany(LOAD, tuple((f"key {n:03}", str(n)) for n in range(300)), writer))
    store.execute(c.SetMany(CHECK, tuple((f"ä {n:03}", str(n)) for n in range(300)), writer))

    bounds = store.execute(c.PlanScan("task_store", 8, 10))
    ranges = list(zip(((), *bounds), (*bounds, ()), strict=True))
    parts = [
        read(store, "task_store", "task_id", "key", after=after, until=until, limit=1000)
        for after, until in ranges
    ]

    assert len(ranges) == 8
    assert max(map(len, parts)) < 200
    assert len(set().union(*parts)) == sum(map(len, parts)) == 600


def test_slices_continue_where_the_previous_one_ended(store: SqlStore) -> None:
    for number in range(7):
        store.execute(c.RegisterTask(TaskScope("etl", "tuesday", "load", number)))
    scan: dict[str, Any] = {"table": "task_instances", "columns": ("run_id", "map_index")}

    first = store.execute(c.Scan(**scan, limit=5))
    assert first.last is not None
    second = store.execute(c.Scan(**scan, after=first.last, limit=5))

    rows = [*zip(*first.columns, strict=True), *zip(*second.columns, strict=True)]
    assert second.last is None
    assert sorted(rows) == [
        *(("monday", -1), ("monday", 3)),
        *(("tuesday", number) for number in range(7)),
    ]


def test_an_entry_written_again_stays_in_its_range(store: SqlStore) -> None:
    writer = TaskWriter(LOAD)
    store.execute(c.SetMany(LOAD, tuple((f"key {n:02}", "1") for n in range(40)), writer))
    bounds = store.execute(c.PlanScan("task_store", 2, 10))
    first = read(store, "task_store", "key", until=bounds[0])

    store.execute(c.Delete(LOAD, "key 39", writer))
    store.execute(c.Delete(LOAD, "key 00", writer))
    store.execute(c.Set(LOAD, "key 00", "2", writer))

    second = read(store, "task_store", "key", after=bounds[0])
    assert ("key 00",) in first
    assert set(first).isdisjoint(second)


@pytest.mark.parametrize("table", TABLES)
def test_an_empty_table_is_one_range(store: SqlStore, table: str) -> None:
    store.execute(c.DeleteRun("etl", "monday"))

    assert store.execute(c.PlanScan(table, 8, 1)) == ()
    assert read(store, table) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"table": "nothing"},
        {"columns": ("key", "colour")},
        {"columns": ()},
        {"tests": (c.Test("value", "=", ("1",)),)},
        {"tests": (c.Test("map_index", "=", ("1",)),)},
        {"tests": (c.Test("key", "in", ()),)},
        {"after": ("a",)},
        {"after": ("not a ti_id", "key")},
        {"table": "asset_store", "after": (2**63, "key")},
        {"tests": (c.Test("map_index", "=", (2**31,)),)},
        {"table": "loads", "tests": (c.Test("rows", ">", (1,)),)},
        {"table": "loads", "columns": ("value",)},
        {"limit": 0},
        {"limit": 10**20},
    ],
)
def test_a_scan_of_an_unknown_table_or_column_is_refused(wrong: dict[str, Any]) -> None:
    right: dict[str, Any] = {"table": "task_store", "columns": ("key",), "limit": 1}

    with pytest.raises(InvalidInput):
        c.Scan(**(right | wrong))


@pytest.mark.parametrize(("most", "rows"), [(0, 1), (1, 0), (10**12, 1), (1, 10**12)])
def test_a_plan_of_too_few_or_too_many_ranges_is_refused(most: int, rows: int) -> None:
    with pytest.raises(InvalidInput):
        c.PlanScan("runs", most, rows)
