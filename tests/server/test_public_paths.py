"""Public API: ids and keys with any characters in paths, decoded once and strictly."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from public_client import Api, serving, state_of
from servers import SqliteDatabase

from holdfast import commands as c
from holdfast.model.scope import TaskScope

RUN_ID = "manual__2026-01-01T00:00:00+00:00"


@pytest.fixture(scope="module")
def api(sqlite_database: SqliteDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serving(sqlite_database.empty(), tmp_path_factory.mktemp("home")) as api:
        yield api


@pytest.fixture(scope="module")
def orders(api: Api) -> str:
    reply = api.ask("POST", "/assets", {"name": "orders"})
    return f"/assets/{reply.json['id']}/state-store"


@pytest.mark.parametrize(
    "ids",
    [
        ("sales", RUN_ID, "load"),
        ("a/b", "2026/01/01", "group/task"),
        ("~", "~", "~"),
        ("..", ".", "..."),
        ("%2F", "100%", "%252F"),
        ("+ ?#&=", "ä ö", "🚀"),
        ("dagRuns", "taskInstances", "state-store"),
    ],
)
def test_ids_of_any_characters_are_found(api: Api, ids: tuple[str, str, str]) -> None:
    api.store.execute(c.RegisterTask(TaskScope(*ids)))

    api.put(state_of(*ids, "k"), 1)

    assert api.get(state_of(*ids, "k"))["value"] == 1
    [found] = api.get("/state-store/tasks", dag_id=ids[0], run_id=ids[1])["task_state_store"]
    assert (found["dag_id"], found["run_id"], found["task_id"]) == ids


@pytest.mark.parametrize(
    "key",
    ["a/b", "/", "a//b", " ", "+", "%", "%2F", "?x=1", "#", "🚀", "ä", "history", "a/history"],
)
def test_keys_of_any_characters_are_kept_apart(api: Api, orders: str, key: str) -> None:
    place = f"{orders}/{quote(key, safe='')}"

    api.put(place, key)

    assert (api.get(place)["key"], api.get(place)["value"]) == (key, key)
    assert [one["value"] for one in api.get(f"{place}/history")["versions"]] == [key]
    assert api.ask("POST", f"{place}/rewind", {"version": 0}).reason == "history_gone"
    assert api.ask("DELETE", place).status == 204


def test_a_slash_in_a_key_need_not_be_encoded(api: Api, orders: str) -> None:
    api.put(f"{orders}/deep/er/key", 1)

    assert api.get(f"{orders}/deep%2Fer%2Fkey")["value"] == 1
    assert api.get(f"{orders}/deep/er/key/history")["total_entries"] == 1


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_key_is_not_taken_for_its_history(api: Api, orders: str, method: str) -> None:
    api.put(f"{orders}/x", 1)

    reply = api.ask(method, f"{orders}/x/history", None if method == "DELETE" else {"value": 1})

    assert (reply.status, reply.reason) == (422, "invalid")
    assert api.ask("GET", f"{orders}/x%2Fhistory").status == 404


@pytest.mark.parametrize(
    "part", ["%FF", "%C3%28", "%ED%A0%80", "%00", "a%0Ab", "%7F", "%", "%zz", "a%2", "x" * 251]
)
def test_an_invalid_id_is_refused(api: Api, part: str) -> None:
    for path in (
        f"/dags/{part}",
        f"/dags/{part}/dagRuns",
        f"/dags/d/dagRuns/{part}",
        f"/dags/d/dagRuns/r/taskInstances/{part}",
        f"/dags/d/dagRuns/r/taskInstances/{part}/state-store/k",
    ):
        reply = api.ask("GET", path)

        assert (reply.status, reply.reason) == (422, "invalid"), path


@pytest.mark.parametrize("part", ["%FF", "%00", "%", "%u1234", "", "x" * 513, "%7F"])
def test_an_invalid_key_is_refused(api: Api, orders: str, part: str) -> None:
    for method in ("GET", "PUT", "DELETE"):
        body = {"value": 1} if method == "PUT" else None
        reply = api.ask(method, f"{orders}/{part}", body)

        assert (reply.status, reply.reason) == (422, "invalid")


@pytest.mark.parametrize(
    "path",
    [
        "/dags/../assets",
        "/dags/%2E%2E/assets",
        "//dags",
        "/dags/",
        "/assets/1/..",
        "/assets%2F1",
        "/d%61gs",
        "/assets/1%2Fstate-store",
        "/unknown",
    ],
)
def test_other_spellings_of_a_path_are_not_found(api: Api, path: str) -> None:
    reply = api.ask("GET", path)

    assert (reply.status, reply.reason) in ((404, "not_found"), (422, "invalid"))


@pytest.mark.parametrize("id", ["0", "-1", "x", "1.5", "9223372036854775808", "1" * 5000, "%31"])
def test_an_invalid_asset_id_is_refused(api: Api, id: str) -> None:
    assert api.ask("GET", f"/assets/{id}").status == 422


def test_the_response_to_an_unsupported_method_lists_the_supported_ones(api: Api) -> None:
    reply = api.ask("POST", "/assets/1/state-store/k", {"value": 1})

    assert (reply.status, reply.reason) == (405, "method_not_allowed")
    assert reply.headers["allow"] == "DELETE, GET, PATCH, PUT"


def test_an_unknown_query_is_refused(api: Api) -> None:
    reply = api.ask("GET", "/dags", limt=1)

    assert (reply.status, reply.reason) == (422, "invalid")
    assert reply.json["detail"]["hint"] == "allowed here: limit"


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 1001},
        {"limit": "all"},
        {"offset": -1},
        {"map_index": -2},
        {"map_index": 2**31},
        {"updated_since": "2026-01-01"},
        {"updated_since": "1700000000"},
        {"expiring_before": "0001-01-01T00:00:00+23:59"},
        {"key_prefix": "a\x00"},
        {"dag_id": "a\x00"},
        {"dag_id": ""},
    ],
)
def test_a_query_without_meaning_is_refused(api: Api, query: dict[str, object]) -> None:
    reply = api.ask("GET", "/state-store/tasks", **query)

    assert (reply.status, reply.reason) == (422, "invalid")
