from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import pipeline
from holdfast.command import DeclareAsset, ListAssets, Set
from holdfast.connection import open_store
from holdfast.entry import ApiWriter
from holdfast.scope import AssetScope
from holdfast.settings import load
from holdfast.store import Store


@pytest.fixture
def store() -> Iterator[Store]:
    """The embedded store of the project, with an asset that was written and loaded once."""
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


def test_assets_are_listed_for_machines(holdfast):
    (orders,) = json.loads(holdfast("assets", "list", "--json").out)["assets"]

    assert orders["dags"] == ["etl", "mart"]
    assert orders["active"] is True
    assert orders["last_event_at"].startswith("20")


def test_an_asset_is_shown_with_entries_and_events(holdfast):
    lines = holdfast("assets", "show", "orders").out.splitlines()

    assert "uri\ts3://lake/orders" in lines
    assert any(line.startswith("watermark\t7\t") for line in lines)
    assert lines[-1].startswith("orders\t1\t20")
    assert lines[-1].endswith('\ttask etl/r1/load[0]\t{"rows":7}')


def test_an_asset_is_shown_to_machines(holdfast):
    found = json.loads(holdfast("assets", "show", "orders", "--json").out)

    assert found["entries"][0]["value"] == 7
    assert found["asset_events"][0] | {"at": ""} == {
        "asset": "orders",
        "asset_uri": "s3://lake/orders",
        "number": 1,
        "at": "",
        "extra": {"rows": 7},
        "source": {"dag_id": "etl", "run_id": "r1", "task_id": "load", "map_index": 0},
    }


def test_events_are_listed_newest_first(holdfast, store):
    pipeline.succeed(store, "load", 2)

    lines = holdfast("assets", "events").out.splitlines()

    assert [line.split("\t")[1] for line in lines] == ["event", "2", "1"]
    assert len(holdfast("assets", "events", "--limit", "1").out.splitlines()) == 2
    assert len(holdfast("assets", "events", "--asset", "orders").out.splitlines()) == 3


def test_no_events_are_no_output(holdfast, store):
    store.execute(DeclareAsset("quiet"))

    assert holdfast("assets", "events", "--asset", "quiet") == (0, "", "There are no events.\n")


@pytest.mark.parametrize("command", [("show",), ("events", "--asset"), ("delete", "--yes")])
def test_an_unknown_asset_is_named(holdfast, command):
    result = holdfast("assets", *command, "orderz")

    assert result.status == 1
    assert result.err.startswith("error: asset `orderz` is not known\nhint: assets that are")


def test_an_asset_is_deleted(holdfast, store):
    result = holdfast("assets", "delete", "orders", "--yes")

    assert (result.status, result.err) == (0, "Deleted asset `orders`.\n")
    assert store.execute(ListAssets()) == ()


def test_an_asset_is_not_deleted_without_a_yes(holdfast, store):
    assert holdfast("assets", "delete", "orders").status == 2
    assert len(store.execute(ListAssets())) == 1
