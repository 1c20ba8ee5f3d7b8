"""`holdfast assets`: lists, events, loads and deletion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pipeline
import pytest
from remembered import remember

from holdfast import Connection
from holdfast.commands import DeclareAsset, ListAssets, Set
from holdfast.connection import open_store
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import AssetScope
from holdfast.settings import load
from holdfast.store import Store


@pytest.fixture
def store() -> Iterator[Store]:
    """Yield the embedded store of the project, with an asset that was written and loaded once."""
    with open_store(load()) as store:
        pipeline.half_way(store)
        store.execute(Set(AssetScope(name="orders"), "watermark", "7", ApiWriter("ann")))
        yield store


def test_assets_are_listed(holdfast, store):
    store.execute(DeclareAsset("by-hand", "s3://lake/by-hand"))

    header, by_hand, orders = holdfast("assets", "list").out.splitlines()

    assert header == "asset\turi\tdags\tactive\tlast event"
    assert by_hand == "by-hand\ts3://lake/by-hand\tby hand\tyes\t"
    assert orders.startswith("orders\ts3://lake/orders\tetl, mart\tyes\t20")


def test_assets_are_listed_as_json(holdfast):
    (orders,) = json.loads(holdfast("assets", "list", "--json").out)["assets"]

    assert orders["dags"] == ["etl", "mart"]
    assert orders["is_active"] is True
    assert orders["last_event_at"].startswith("20")


def test_an_asset_is_shown_with_entries_and_events(holdfast):
    lines = holdfast("assets", "show", "orders").out.splitlines()

    assert "uri\ts3://lake/orders" in lines
    assert any(line.startswith("watermark\t7\t") for line in lines)
    assert lines[-1].startswith("orders\t1\t20")
    assert lines[-1].endswith('\ttask etl/r1/load[0]\t{"rows":7}')


def test_an_asset_is_shown_as_json(holdfast):
    found = json.loads(holdfast("assets", "show", "orders", "--json").out)

    assert found["entries"][0]["value"] == 7
    assert found["asset_events"][0] | {"timestamp": ""} == {
        "asset_id": 1,
        "name": "orders",
        "uri": "s3://lake/orders",
        "number": 1,
        "timestamp": "",
        "extra": {"rows": 7},
        "source_dag_id": "etl",
        "source_run_id": "r1",
        "source_task_id": "load",
        "source_map_index": 0,
    }


def test_events_are_listed_newest_first(holdfast, store):
    pipeline.succeed(store, "load", 2)

    lines = holdfast("assets", "events").out.splitlines()

    assert [line.split("\t")[1] for line in lines] == ["event", "2", "1"]
    assert len(holdfast("assets", "events", "--limit", "1").out.splitlines()) == 2
    assert len(holdfast("assets", "events", "--asset", "orders").out.splitlines()) == 3


def test_without_events_there_is_no_output(holdfast, store):
    store.execute(DeclareAsset("quiet"))

    assert holdfast("assets", "events", "--asset", "quiet") == (0, "", "There are no events.\n")


@pytest.mark.parametrize("command", [("show",), ("events", "--asset"), ("delete", "--yes")])
def test_an_unknown_asset_is_named(holdfast, command):
    result = holdfast("assets", *command, "orderz")

    assert result.status == 1
    assert result.err.startswith("error: asset `orderz` is not known\nhint: declared assets")


def test_an_asset_is_deleted(holdfast, store):
    result = holdfast("assets", "delete", "orders", "--yes")

    assert (result.status, result.err) == (0, "Deleted asset `orders`.\n")
    assert store.execute(ListAssets()) == ()


def test_an_asset_is_not_deleted_without_confirmation(holdfast, store):
    assert holdfast("assets", "delete", "orders").status == 2
    assert len(store.execute(ListAssets())) == 1


def test_the_loads_of_an_asset_are_listed_newest_first(holdfast, store):
    orders = Connection(store).asset_store(name="orders")
    orders.delete("watermark")
    orders.set("note/load", "the user's own")
    remember(orders, 10, directories=["/lake/a", "/lake/b"], checks={"unique id": 0, "rows": 2})
    remember(orders, "b", key="late", rows=None, type="string", **{"from": "a"})
    remember(orders, 20)
    orders.rewind("watermark", version=orders.history("watermark")[1].version)

    header, second, late, first = holdfast("assets", "loads", "orders").out.splitlines()
    by_key = holdfast("assets", "loads", "orders", "--key", "late").out.splitlines()
    limited = holdfast("assets", "loads", "orders", "--limit", "1").out.splitlines()

    assert header.split("\t")[:8] == [
        *("key", "number", "kind", "state", "from", "to", "rows", "seconds")
    ]
    assert first.startswith("watermark\t0\tload\tcurrent\t\t10\t10\t1.5\t2026-01-31T05:00:00")
    assert first.endswith("\tunique id: 0, rows: 2\t/lake/a, /lake/b")
    assert late.startswith("late\t0\tload\tcurrent\ta\tb\t\t1.5\t")
    assert second.startswith("watermark\t1\tload\tundone\t\t20\t")
    assert by_key == [header, late]
    assert limited == [header, second]


def test_the_loads_of_an_asset_are_listed_as_json(holdfast, store):
    orders = Connection(store).asset_store(name="orders")
    remember(orders, 10, **{"from": 3})

    found = json.loads(holdfast("assets", "loads", "orders", "--limit", "1", "--json").out)

    (one,) = found["loads"]
    assert found["total_entries"] == 1
    assert (one["number"], one["from"], one["to"], one["undone"]) == (0, 3, 10, False)
    assert one["last_updated_by"]["kind"] == "api"
    assert "holdfast" not in one


def test_an_asset_without_loads_has_a_message(holdfast):
    listed = holdfast("assets", "loads", "orders")
    by_key = holdfast("assets", "loads", "orders", "--key", "late")

    assert (listed.status, listed.out) == (0, "")
    assert listed.err == "Asset `orders` has no recorded loads.\n"
    assert by_key.err == "`late` of asset `orders` has no recorded loads.\n"
    assert holdfast("assets", "loads", "orderz").status == 1


def test_the_error_for_a_backend_without_listing_names_the_option_to_use(program, monkeypatch):
    program("state-store", "set", "--asset", "orders", "--declare", "k", "1")
    backend = {"HOLDFAST__STATE_STORE__BACKEND": "plain_backend.PlainBackend"}
    path = str(Path(__file__).parents[1] / "server")

    result = program("assets", "loads", "orders", PYTHONPATH=path, **backend)

    assert result.status == 1
    assert "cannot list entries" in result.err
    assert "--key watermark" in result.err
