"""Public API: the state of task instances and assets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pipeline
import pytest
from public_client import STATE, Api, serving, state_of
from servers import ServerDatabase, SqliteDatabase

from holdfast import commands as c
from holdfast.commands import ReserveObjects, paging
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import as_reference

EXTRACT = TaskScope("etl", "r1", "extract")
LOADING = TaskScope("etl", "r1", "load", 2)


@pytest.fixture(scope="module")
def served(
    postgres_database: ServerDatabase, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Api]:
    home = tmp_path_factory.mktemp("home")
    with serving(postgres_database.url, home, default_retention_days="7") as api:
        yield api


@pytest.fixture
def api(served: Api, postgres_database: ServerDatabase) -> Api:
    postgres_database.empty()
    pipeline.half_way(served.store)
    return served


@pytest.fixture
def orders(api: Api) -> str:
    [asset] = api.get("/assets", name="orders")["assets"]
    return f"/assets/{asset['id']}/state-store"


@pytest.mark.parametrize(
    "value", ["text", 0, -1.5, True, [], {}, {"a": [None, {"b": "ü"}]}, 2**63 - 1, 1e300]
)
def test_a_value_is_returned_as_it_was_written(api: Api, orders: str, value: Any) -> None:
    for place in (STATE, orders):
        api.put(f"{place}/k", value)

        entry = api.get(f"{place}/k")
        assert (entry["value"], entry["reference"]) == (value, None)


def test_an_entry_has_its_version_and_writer(api: Api) -> None:
    first = api.put(f"{STATE}/job", "a")
    second = api.put(f"{STATE}/job", "b")

    entry = api.get(f"{STATE}/job")
    assert second["version"] == entry["version"] > first["version"] > 0
    assert entry["last_updated_by"] == {
        "kind": "api",
        "user": "ann",
        "dag_id": None,
        "run_id": None,
        "task_id": None,
        "map_index": None,
    }
    written = datetime.fromisoformat(entry["updated_at"])
    assert abs(datetime.now(UTC) - written) < timedelta(minutes=1)


def test_an_entry_of_a_task_names_the_task(api: Api, orders: str) -> None:
    writer = TaskWriter(LOADING, api.store.execute(c.StartAttempt(LOADING)))
    api.store.execute(c.Set(AssetScope(name="orders"), "cursor", "1", writer))

    assert api.get(f"{orders}/cursor")["last_updated_by"] == {
        "kind": "task",
        "user": None,
        "dag_id": "etl",
        "run_id": "r1",
        "task_id": "load",
        "map_index": 2,
    }


def test_expiry_is_the_default_never_or_a_time(api: Api) -> None:
    default = api.put(f"{STATE}/a", 1)["expires_at"]
    said = api.ask("PUT", f"{STATE}/b", {"value": 1, "expires_at": "default"}).json["expires_at"]
    never = api.ask("PUT", f"{STATE}/c", {"value": 1, "expires_at": None}).json["expires_at"]
    api.ask("PUT", f"{STATE}/d", {"value": 1, "expires_at": "2099-01-01T01:00:00+01:00"})

    week = datetime.now(UTC) + timedelta(days=7)
    for time in (default, said):
        assert abs(datetime.fromisoformat(time) - week) < timedelta(minutes=1)
    assert never is None
    assert api.get(f"{STATE}/d")["expires_at"] == "2099-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "time", ["2020-01-01T00:00:00Z", "2099-01-01", "2099-01-01T00:00:00", 4102444800, "soon"]
)
def test_a_past_or_invalid_expiry_is_refused(api: Api, time: Any) -> None:
    reply = api.ask("PUT", f"{STATE}/k", {"value": 1, "expires_at": time})

    assert (reply.status, reply.reason) == (422, "invalid")
    assert api.ask("GET", f"{STATE}/k").status == 404


def test_a_patch_keeps_the_expiry(api: Api) -> None:
    api.ask("PUT", f"{STATE}/k", {"value": 1, "expires_at": "2099-01-01T00:00:00Z"})

    reply = api.ask("PATCH", f"{STATE}/k", {"value": 2})

    assert (reply.status, reply.json["expires_at"]) == (200, "2099-01-01T00:00:00Z")
    entry = api.get(f"{STATE}/k")
    assert (entry["value"], entry["expires_at"]) == (2, "2099-01-01T00:00:00Z")


def test_a_patch_needs_an_entry(api: Api, orders: str) -> None:
    for place in (STATE, orders):
        reply = api.ask("PATCH", f"{place}/k", {"value": 2})

        assert (reply.status, reply.reason) == (404, "not_found")


def test_concurrent_patches_all_take_effect(api: Api) -> None:
    api.put(f"{STATE}/k", 0)
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda n: api.ask("PATCH", f"{STATE}/k", {"value": n}), range(8)))

    assert [reply.status for reply in replies] == [200] * 8
    assert len({reply.json["version"] for reply in replies}) == 8


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_conditional_write_needs_that_version(api: Api, orders: str, method: str) -> None:
    for place in (STATE, orders):
        version = api.put(f"{place}/k", 1, if_version=0)["version"]

        assert api.ask(method, f"{place}/k", {"value": 2}, if_version=version).status == 200
        late = api.ask(method, f"{place}/k", {"value": 3}, if_version=version)
        assert (late.status, late.reason) == (409, "version_conflict")
        assert api.get(f"{place}/k")["value"] == 2


def test_entries_are_listed_by_key_and_page_by_page(api: Api) -> None:
    for key in ("b", "a", "c/d", "A"):
        api.put(f"{STATE}/{key.replace('/', '%2F')}", key)

    page = api.get(STATE, limit=2, offset=1)
    assert [entry["key"] for entry in page["task_state_store"]] == ["a", "b"]
    assert page["total_entries"] == 4


@pytest.mark.parametrize(
    "path", [STATE, "/state-store/tasks", "/state-store/assets", "/assets/{id}/state-store"]
)
def test_a_list_of_values_that_are_too_large_together_is_refused(
    api: Api, orders: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "LARGEST_PAGE", 10)
    path = orders if "{id}" in path else path
    for key in ("a", "b", "c"):
        api.put(f"{STATE}/{key}", "12345678")
        api.put(f"{orders}/{key}", "12345678")

    refused = api.ask("GET", path)

    assert (refused.status, refused.json["detail"]["reason"]) == (422, "too_large")
    assert "limit=2" in refused.json["detail"]["hint"]
    assert api.get(path, limit=2)["total_entries"] >= 3


def test_a_history_that_is_too_large_is_refused(
    api: Api, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "LARGEST_PAGE", 10)
    api.put(f"{orders}/k", "one that is large")
    assert api.get(f"{orders}/k/history")["total_entries"] == 1

    api.put(f"{orders}/k", "and another large one")

    refused = api.ask("GET", f"{orders}/k/history")
    assert (refused.status, refused.json["detail"]["reason"]) == (422, "too_large")
    assert "holdfast state-store history" in refused.json["detail"]["hint"]


def test_lists_are_filtered(api: Api, orders: str) -> None:
    api.ask("PUT", f"{STATE}/old", {"value": 1, "expires_at": "2099-01-01T00:00:00Z"})
    before = api.get(f"{STATE}/old")["updated_at"]
    api.put(f"{STATE}/new", 1)
    api.put(f"{orders}/new", 1)

    def keys(place: str = STATE, **query: Any) -> list[str]:
        found = api.get(place, **query)
        [entries] = [value for value in found.values() if isinstance(value, list)]
        assert found["total_entries"] == len(entries)
        return [entry["key"] for entry in entries]

    assert keys(key_prefix="ne") == ["new"]
    assert keys(updated_since=before) == ["new", "old"]
    assert keys(updated_since="2099-01-01T00:00:00Z") == []
    assert keys(expiring_before="2098-01-01T00:00:00Z") == ["new"]
    assert keys(orders, key_prefix="ne", updated_since=before) == ["new"]


def test_state_of_all_tasks_is_listed_with_its_task(api: Api) -> None:
    api.put(f"{STATE}/k", 1)
    api.put(f"{state_of('etl', 'r1', 'load')}/k", 2, map_index=1)

    def found(**query: Any) -> list[Any]:
        page = api.get("/state-store/tasks", **query)
        assert page["total_entries"] == len(page["task_state_store"])
        return [(one["task_id"], one["map_index"]) for one in page["task_state_store"]]

    assert found() == [("extract", -1), ("load", 1)]
    assert found(dag_id="etl", run_id="r1", task_id="load", map_index=1) == [("load", 1)]
    assert found(map_index=0) == found(dag_id="other") == found(key_prefix="x") == []


def test_state_of_all_assets_is_listed_with_its_asset(api: Api, orders: str) -> None:
    api.put(f"{orders}/k", 1)
    api.store.execute(c.DeclareAsset("customers"))
    api.store.execute(c.Set(AssetScope(name="customers"), "k", "2", ApiWriter("bob")))

    page = api.get("/state-store/assets")
    assert [one["name"] for one in page["asset_state_store"]] == ["customers", "orders"]
    [one] = api.get("/state-store/assets", name="orders")["asset_state_store"]
    assert (one["uri"], one["value"]) == ("s3://lake/orders", 1)
    assert api.get("/state-store/assets", asset_id=one["asset_id"])["total_entries"] == 1
    assert api.ask("GET", "/state-store/assets", name="orderz").reason == "unknown_asset"
    assert api.ask("GET", "/state-store/assets", name="orders", uri="x").status == 422


def test_a_deleted_entry_is_absent_and_deleting_it_again_does_nothing(
    api: Api, orders: str
) -> None:
    for place in (STATE, orders):
        api.put(f"{place}/k", 1)

        assert api.ask("DELETE", f"{place}/k").status == 204
        assert api.ask("DELETE", f"{place}/k").status == 204
        assert api.ask("GET", f"{place}/k").reason == "not_found"


def test_a_clear_applies_to_one_map_index_or_all(api: Api) -> None:
    load = state_of("etl", "r1", "load")
    for index in (0, 1, 2):
        api.put(f"{load}/k", 1, map_index=index)

    assert api.ask("DELETE", load, map_index=0).status == 204
    assert api.get("/state-store/tasks", task_id="load")["total_entries"] == 2
    assert api.ask("DELETE", load, all_map_indices="true").status == 204
    assert api.get("/state-store/tasks", task_id="load")["total_entries"] == 0


def test_a_clear_removes_every_entry_of_an_asset(api: Api, orders: str) -> None:
    api.put(f"{orders}/a", 1)
    api.put(f"{orders}/b", 1)

    assert api.ask("DELETE", orders).status == 204
    assert api.get(orders) == {"asset_state_store": [], "total_entries": 0}


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_an_unknown_scope_or_key_is_not_found(api: Api, method: str) -> None:
    body = {"value": 1} if method.startswith("P") else None

    task = api.ask(method, f"{state_of('etl', 'r9', 'extract')}/k", body)
    asset = api.ask(method, "/assets/4711/state-store/k", body)

    assert (task.status, task.reason) == (404, "unknown_task_instance")
    assert (asset.status, asset.reason) == (404, "unknown_asset")


@pytest.mark.parametrize(
    "body",
    [
        b'{"value": null}',
        b'{"value": NaN}',
        b'{"value": 1e400}',
        b'{"value": 123456789012345678901234567890}',
        b'{"value": "\\ud800"}',
        b'{"value": 1, "valve": 2}',
        b"{}",
        b"[1]",
        b"",
        b'{"value": "\xff"}',
        b'{"value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"value": ' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"value": 1, "value"',
    ],
)
def test_a_body_that_cannot_be_stored_is_refused(api: Api, orders: str, body: bytes) -> None:
    for place in (STATE, orders):
        reply = api.ask("PUT", f"{place}/k", body)

        assert reply.status == 422
        assert reply.json["detail"]["message"]
        assert api.ask("GET", f"{place}/k").status == 404


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("map_index=x", "query.map_index: "),
        ("map_index=2147483648", "query.map_index: "),
        ("dag_id=", "query.dag_id: "),
        ("updated_since=soon", "query.updated_since: this is not a time"),
    ],
)
def test_the_error_for_a_bad_parameter_names_it_and_no_type_of_ours(
    api: Api, query: str, message: str
) -> None:
    reply = api.ask("GET", f"/state-store/tasks?{query}")

    assert reply.status == 422
    assert reply.json["detail"]["message"].startswith(message)


def test_the_error_for_a_bad_field_names_it_and_no_type_of_ours(api: Api) -> None:
    reply = api.ask("PUT", f"{STATE}/k", b'{"value": 1, "expires_at": "soon"}')

    assert reply.status == 422
    assert reply.json["detail"]["message"].startswith("body.expires_at: this is not a time")


def test_a_body_of_another_type_is_refused(api: Api) -> None:
    reply = api.ask("PUT", f"{STATE}/k", b"value=1", content_type="text/plain")

    assert (reply.status, reply.reason) == (415, "wrong_content_type")


def test_a_deep_value_within_the_limit_is_returned(api: Api) -> None:
    value: Any = 1
    for _ in range(199):
        value = [value]

    api.put(f"{STATE}/k", value)

    assert api.get(f"{STATE}/k")["value"] == value
    assert api.get(STATE)["task_state_store"][0]["value"] == value


def test_a_value_over_the_limit_is_refused(api: Api, orders: str) -> None:
    for place in (STATE, orders):
        for method in ("PUT", "PATCH"):
            api.put(f"{place}/k", 1)
            reply = api.ask(method, f"{place}/k", {"value": "x" * 65_534})

            assert (reply.status, reply.reason) == (422, "too_large")
            assert api.get(f"{place}/k")["value"] == 1
        api.put(f"{place}/k", "x" * 65_533)


def test_a_reference_is_shown_and_never_resolved(api: Api, orders: str) -> None:
    reference = as_reference("s3://bucket/object")
    for scope in (EXTRACT, AssetScope(name="orders")):
        api.store.execute(ReserveObjects(scope, (("k", reference, "mine"),), ApiWriter("ann")))
        api.store.execute(c.Set(scope, "k", reference, ApiWriter("ann"), reservation="mine"))

    for place in (STATE, orders):
        entry = api.get(f"{place}/k")
        assert (entry["value"], entry["reference"]) == (None, "s3://bucket/object")
    [version] = api.get(f"{orders}/k/history")["versions"]
    assert (version["reference"], version["deleted"]) == ("s3://bucket/object", False)


def test_text_that_is_not_json_is_an_error_and_lists_go_on(api: Api, orders: str) -> None:
    for scope, place in ((EXTRACT, STATE), (AssetScope(name="orders"), orders)):
        api.put(f"{place}/z", 1)
        api.store.execute(c.Set(scope, "k", "app_17", ApiWriter("ann")))

        reply = api.ask("GET", f"{place}/k")
        [entries, total] = api.get(place).values()

        assert (reply.status, reply.reason) == (500, "unreadable_value")
        message = reply.json["detail"]["message"]
        assert re.match(
            "`k` of (task etl/r1/extract|asset .*) holds text that is not JSON", message
        )
        assert [(one["key"], one["value"], one["reference"]) for one in entries] == [
            ("k", None, None),
            ("z", 1, None),
        ]
        assert total == 2
    [version] = api.get(f"{orders}/k/history")["versions"]
    assert (version["value"], version["deleted"]) == (None, False)


def test_a_value_that_looks_like_a_reference_is_a_value(api: Api) -> None:
    value = {"__holdfast_ref__": "s3://bucket/object"}

    api.put(f"{STATE}/k", value)

    entry = api.get(f"{STATE}/k")
    assert (entry["value"], entry["reference"]) == (value, None)


def test_history_has_every_version(api: Api, orders: str) -> None:
    api.put(f"{orders}/k", 1)
    api.ask("DELETE", f"{orders}/k")
    last = api.put(f"{orders}/k", 2)["version"]

    found = api.get(f"{orders}/k/history")
    assert [(one["value"], one["deleted"]) for one in found["versions"]] == [
        (2, False),
        (None, True),
        (1, False),
    ]
    assert (found["total_entries"], found["versions"][0]["version"]) == (3, last)
    assert found["versions"][0]["last_updated_by"]["user"] == "ann"


def test_a_key_without_history_is_not_found(api: Api, orders: str) -> None:
    reply = api.ask("GET", f"{orders}/k/history")

    assert (reply.status, reply.reason) == (404, "not_found")


def test_a_rewind_restores_an_old_value(api: Api, orders: str) -> None:
    first = api.put(f"{orders}/k", 1)["version"]
    at = api.get(f"{orders}/k/history")["versions"][0]["updated_at"]
    api.put(f"{orders}/k", 2)

    dry = api.ask("POST", f"{orders}/k/rewind", {"version": first, "dry_run": True})
    assert (dry.json["restored"]["value"], dry.json["dry_run"]) == (1, True)
    assert api.get(f"{orders}/k")["value"] == 2
    done = api.ask("POST", f"{orders}/k/rewind", {"at": at})
    assert (done.status, done.json["restored"]["version"]) == (200, first)
    assert api.get(f"{orders}/k")["value"] == 1


def test_a_rewind_goes_to_before_a_run(api: Api, orders: str) -> None:
    api.put(f"{orders}/k", 1)
    writer = TaskWriter(LOADING, api.store.execute(c.StartAttempt(LOADING)))
    api.store.execute(c.Set(AssetScope(name="orders"), "k", "2", writer))

    assert api.ask("POST", f"{orders}/k/rewind", {"run_id": "r1"}).json["restored"]["value"] == 1


@pytest.mark.parametrize(
    "body", [{}, {"version": 1, "run_id": "r1"}, {"at": "yesterday"}, {"version": -1}, {"to": 1}]
)
def test_a_rewind_needs_one_target(api: Api, orders: str, body: Any) -> None:
    api.put(f"{orders}/k", 1)

    assert api.ask("POST", f"{orders}/k/rewind", body).status == 422


def test_a_rewind_beyond_the_history_is_not_found(api: Api, orders: str) -> None:
    api.put(f"{orders}/k", 1)

    reply = api.ask("POST", f"{orders}/k/rewind", {"version": 4711})

    assert (reply.status, reply.reason) == (404, "history_gone")


def test_the_state_of_an_inactive_asset_is_not_written(api: Api, orders: str) -> None:
    api.put(f"{orders}/k", 1)
    for dag in ("etl", "mart"):
        api.store.execute(c.DeclareDagAssets(dag, ()))

    assert api.ask("PUT", f"{orders}/k", {"value": 2}).reason == "asset_inactive"
    assert api.get(f"{orders}/k")["value"] == 1


def test_a_backend_without_versions_is_read_and_written(
    sqlite_database: SqliteDatabase, tmp_path: Path
) -> None:
    backend = "plain_backend.PlainBackend"
    with serving(sqlite_database.empty(), tmp_path, backend=backend) as api:
        pipeline.half_way(api.store)
        api.put(f"{STATE}/k", {"a": 1})

        entry = api.get(f"{STATE}/k")
        assert (entry["value"], entry["version"], entry["updated_at"]) == ({"a": 1}, None, None)
        assert api.ask("GET", f"{STATE}/x").status == 404
        for reply in (
            api.ask("GET", STATE),
            api.ask("PATCH", f"{STATE}/k", {"value": 2}),
            api.ask("PUT", f"{STATE}/k", {"value": 2}, if_version=1),
            api.ask("GET", "/assets/1/state-store/k/history"),
        ):
            assert (reply.status, reply.reason) == (501, "not_supported")
