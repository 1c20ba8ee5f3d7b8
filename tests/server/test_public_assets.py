"""Public API: assets and their events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pipeline
import pytest
from public_client import Api, serving
from remembered import remember
from servers import SqliteDatabase

from holdfast import Connection
from holdfast import commands as c
from holdfast.access.identity import UserIdentity
from holdfast.model.role import Role


@pytest.fixture
def api(sqlite_database: SqliteDatabase, tmp_path: Path) -> Iterator[Api]:
    with serving(sqlite_database.empty(), tmp_path) as api:
        pipeline.half_way(api.store)
        yield api


def test_assets_are_listed_and_found_by_name_or_uri(api: Api) -> None:
    api.ask("POST", "/assets", {"name": "customers"})

    def names(**query: Any) -> list[str]:
        return [asset["name"] for asset in api.get("/assets", **query)["assets"]]

    assert names() == ["customers", "orders"]
    assert names(limit=1, offset=1) == names(name="orders") == ["orders"]
    assert names(uri="s3://lake/orders") == ["orders"]
    assert names(name="orders", uri="s3://elsewhere") == names(name="orderz") == []
    assert api.get("/assets", limit=1)["total_entries"] == 2
    assert api.get("/assets", name="orders", offset=1) == {"assets": [], "total_entries": 1}


def test_an_asset_names_the_dags_that_declare_it(api: Api) -> None:
    [asset] = api.get("/assets", name="orders")["assets"]

    assert api.get(f"/assets/{asset['id']}") == asset
    assert (asset["uri"], asset["dags"]) == ("s3://lake/orders", ["etl", "mart"])
    assert (asset["is_active"], asset["inactive_since"]) == (True, None)


def test_an_asset_is_declared_once(api: Api) -> None:
    first = api.ask("POST", "/assets", {"name": "new", "uri": "s3://new"})
    again = api.ask("POST", "/assets", {"uri": "s3://new"})

    assert (first.status, first.json["name"], first.json["declared_by_hand"]) == (200, "new", True)
    assert again.json == first.json


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": None},
        {"name": ""},
        {"name": "x" * 1501},
        {"name": "a\n"},
        {"name": 1},
        {"name": "orders", "uri": "s3://another"},
        {"name": "a", "group": "b"},
    ],
)
def test_an_invalid_asset_is_refused(api: Api, body: Any) -> None:
    assert api.ask("POST", "/assets", body).status == 422
    assert api.get("/assets")["total_entries"] == 1


def test_the_loads_of_an_asset_are_listed(api: Api) -> None:
    [asset] = api.get("/assets", name="orders")["assets"]
    place = f"/assets/{asset['id']}/loads"
    orders = Connection(api.store).asset_store(name="orders")
    assert api.get(place) == {"loads": [], "total_entries": 0}
    remember(orders, 20)
    remember(orders, 30, directories=["/lake/load=1"], checks={"unique id": 0}, rows=None)
    remember(orders, "b", key="late/ä", type="string", **{"from": "a"})

    late, newest, oldest = api.get(place)["loads"]

    assert (late["key"], late["from"], late["to"]) == ("late/ä", "a", "b")
    assert newest | {"updated_at": "", "last_updated_by": {}} == {
        "key": "watermark",
        "name": "load=orders.watermark.000000000001",
        "number": 1,
        "kind": "load",
        "undone": False,
        "cursor": "id",
        "type": "integer",
        "from": None,
        "to": 30,
        "rows": None,
        "beyond": 0,
        "started_at": "2026-01-31T05:00:00.000000Z",
        "seconds": 1.5,
        "directories": ["/lake/load=1"],
        "checks": {"unique id": 0},
        "quarantined": 0,
        "quarantine": None,
        "updated_at": "",
        "last_updated_by": {},
    }
    assert newest["last_updated_by"]["kind"] == "api"
    assert api.get(place, key="late/ä") == {"loads": [late], "total_entries": 1}
    assert api.get(place, limit=1, offset=1) == {"loads": [newest], "total_entries": 3}

    orders.rewind("watermark", version=1)

    stand = [(one["to"], one["undone"]) for one in api.get(place, key="watermark")["loads"]]
    assert stand == [(30, True), (20, False)]
    assert oldest["undone"] is False
    assert api.ask("GET", "/assets/99/loads").reason == "unknown_asset"
    assert api.ask("GET", "/assets/99/loads", key="watermark").reason == "unknown_asset"
    assert api.ask("GET", place, key="").status == 422
    viewer = api.of(UserIdentity("bob", Role.VIEWER))
    assert viewer.get(place, key="none") == {"loads": [], "total_entries": 0}
    assert api.ask("GET", place, token="").status == 401


def test_deleting_an_asset_deletes_its_state(api: Api) -> None:
    place = f"/assets/{api.ask('POST', '/assets', {'name': 'gone'}).json['id']}"
    api.put(f"{place}/state-store/k", 1)

    assert api.ask("DELETE", place).status == 204

    for path in (place, f"{place}/state-store", f"{place}/state-store/k/history"):
        assert api.ask("GET", path).reason == "unknown_asset"
    assert api.ask("DELETE", place).status == 404


def test_an_asset_that_no_dag_declares_is_shown_as_inactive(api: Api) -> None:
    for dag in ("etl", "mart"):
        api.store.execute(c.DeclareDagAssets(dag, ()))

    [asset] = api.get("/assets")["assets"]
    assert not asset["is_active"]
    assert asset["inactive_since"] is not None


def test_events_are_listed_newest_first(api: Api) -> None:
    pipeline.succeed(api.store, "load", 2)
    [asset] = api.get("/assets")["assets"]

    found = api.get("/assets/events")
    assert [event["number"] for event in found["asset_events"]] == [2, 1]
    newest = found["asset_events"][0]
    assert (newest["asset_id"], newest["extra"]) == (asset["id"], {"rows": 7})
    assert (newest["source_task_id"], newest["source_map_index"]) == ("load", 2)
    page = api.get("/assets/events", asset_id=asset["id"], limit=1, offset=1)
    assert [event["number"] for event in page["asset_events"]] == [1]
    assert page["total_entries"] == found["total_entries"] == 2
    assert api.ask("GET", "/assets/events", asset_id=4711).reason == "unknown_asset"


def test_an_event_is_reported_with_the_users_name(api: Api) -> None:
    [asset] = api.get("/assets")["assets"]
    body = {"asset_id": asset["id"], "extra": {"rows": 8}, "key": "monday"}

    first = api.ask("POST", "/assets/events", body)
    again = api.ask("POST", "/assets/events", body | {"extra": {"rows": 9}})

    assert (first.status, again.status, again.json) == (201, 201, first.json)
    event = first.json
    assert (event["number"], event["extra"], event["key"]) == (2, {"rows": 8}, "monday")
    assert (event["user"], event["source_dag_id"]) == ("ann", None)
    for named in ({"name": "orders"}, {"uri": "s3://lake/orders"}):
        assert api.ask("POST", "/assets/events", named).status == 201
    assert api.get("/assets/events")["total_entries"] == 4
    run = api.store.execute(c.CreateAssetRun("mart", "m1"))
    assert run is not None
    assert api.get("/dags/mart/dagRuns/m1/upstreamAssetEvents")["total_entries"] == 4


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "orderz"}, 404),
        ({"asset_id": 4711}, 404),
        ({}, 422),
        ({"name": "orders", "asset_id": 1}, 422),
        ({"name": "orders", "extra": [1]}, 422),
        ({"name": "orders", "extra": {"a": 2**64}}, 422),
        ({"name": "orders", "key": ""}, 422),
        ({"name": "orders", "key": "k" * 251}, 422),
        ({"name": "orders", "id": 1}, 422),
    ],
)
def test_an_invalid_event_is_refused(api: Api, body: Any, status: int) -> None:
    assert api.ask("POST", "/assets/events", body).status == status
    assert api.get("/assets/events")["total_entries"] == 1


def test_an_inactive_asset_gets_no_event(api: Api) -> None:
    for dag_id in ("etl", "mart"):
        api.store.execute(c.DeclareDagAssets(dag_id, ()))

    reply = api.ask("POST", "/assets/events", {"name": "orders"})

    assert (reply.status, reply.reason) == (409, "asset_inactive")
