"""Scan of all references to objects in the workers' storage."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from holdfast import commands as c
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import as_reference
from holdfast.portable.report_tables import TABLES
from holdfast.stores.sql import SqlStore

START = datetime(2026, 1, 1, tzinfo=UTC)
ANNA = ApiWriter("anna")
LOAD, ORDERS = TaskScope("etl", "monday", "load"), AssetScope(name="orders")
ONE, TWO = as_reference("s3://b/one"), as_reference("s3://b/two")
IN_PLACE = as_reference("s3://b/place", in_place=True)


@pytest.fixture
def store(database_url: str) -> Iterator[SqlStore]:
    with SqlStore(database_url, clock=lambda: START) as store:
        store.execute(c.RegisterTask(LOAD))
        store.execute(c.DeclareAsset("orders", "s3://orders"))
        yield store


def put(store: SqlStore, write: c.Set) -> None:
    """Write an entry as a worker that has stored its object does."""
    reserve = c.ReserveObjects(write.scope, ((write.key, write.value, "mine"),), write.writer)
    store.execute(reserve)
    store.execute(msgspec.structs.replace(write, reservation="mine"))


def read(store: SqlStore, table: str, *columns: str) -> list[tuple[Any, ...]]:
    scan = c.Scan(table=table, columns=columns or tuple(TABLES[table]), limit=99)
    return sorted(zip(*store.execute(scan).columns, strict=True))


def test_expired_entries_still_refer_to_their_object(store: SqlStore) -> None:
    put(store, c.Set(LOAD, "gone", ONE, ANNA, START - timedelta(days=1)))
    store.execute(c.Set(LOAD, "there", IN_PLACE, ANNA))

    assert read(store, "task_references", "dag_id", "key", "value") == [
        ("etl", "gone", ONE),
        ("etl", "there", IN_PLACE),
    ]


def test_a_value_that_looks_like_a_reference_is_not_one(store: SqlStore) -> None:
    store.execute(c.Set(LOAD, "k", '{"__holdfast_value__":{"__holdfast_ref__":"x"}}', ANNA))
    store.execute(c.Set(LOAD, "l", '"s3://b/one"', ANNA))

    assert read(store, "task_references") == []


def test_entries_history_and_staged_writes_of_an_asset_refer_to_objects(store: SqlStore) -> None:
    attempt = TaskWriter(LOAD, store.execute(c.StartAttempt(LOAD)))
    put(store, c.Set(ORDERS, "k", ONE, ANNA))
    put(store, c.Set(ORDERS, "k", TWO, ANNA))
    put(store, c.Set(ORDERS, "k", ONE, attempt, on_success=True))

    assert read(store, "asset_references", "asset", "key", "value") == [("orders", "k", TWO)]
    assert read(store, "history_references", "version", "value") == [(1, ONE), (2, TWO)]
    assert read(store, "staged_references", "uri", "value") == [("s3://orders", ONE)]


def test_the_queue_has_reserved_and_unreferenced_objects(store: SqlStore) -> None:
    store.execute(c.ReserveObjects(LOAD, (("k", ONE, "mine"),), ANNA))
    store.execute(c.QueueObjects(((ORDERS, "k", TWO),)))

    columns = ("key", "dag_id", "map_index", "asset", "value", "tries")
    found = store.execute(c.Scan(table="queued_references", columns=columns, limit=99)).columns

    assert sorted(zip(*found, strict=True), key=str) == [
        ("k", "etl", -1, None, ONE, 0),
        ("k", None, None, "orders", TWO, 0),
    ]
