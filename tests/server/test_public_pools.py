"""Public API: pools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from public_client import Api, serving
from servers import SqliteDatabase

from holdfast.access.identity import UserIdentity
from holdfast.model.role import Role


@pytest.fixture
def api(sqlite_database: SqliteDatabase, tmp_path: Path) -> Iterator[Api]:
    with serving(sqlite_database.empty(), tmp_path) as api:
        yield api


def test_a_pool_is_created_read_changed_and_deleted(api: Api) -> None:
    body = {"name": "the warehouse", "slots": 3, "description": "old"}
    created = api.ask("POST", "/pools", body)
    path = "/pools/the%20warehouse"
    patched = api.ask("PATCH", path, {"slots": 5})
    described = api.ask("PATCH", path, {"description": "new"})

    whole = body | {"occupied_slots": 0, "open_slots": 3}
    assert (created.status, created.json) == (201, whole)
    assert patched.json == whole | {"slots": 5, "open_slots": 5}
    assert described.json == api.get(path) == patched.json | {"description": "new"}
    assert api.ask("DELETE", path).status == 204
    assert api.ask("GET", path).status == 404
    assert [one["name"] for one in api.get("/pools")["pools"]] == ["default_pool"]


def test_a_pool_is_created_once(api: Api) -> None:
    body = {"name": "warehouse", "slots": 3}

    assert api.ask("POST", "/pools", body).status == 201
    again = api.ask("POST", "/pools", body | {"slots": 4})

    assert (again.status, again.reason) == (409, "conflict")
    assert api.get("/pools/warehouse")["slots"] == 3


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/pools", {"name": "", "slots": 1}, 422),
        ("POST", "/pools", {"name": "w", "slots": -2}, 422),
        ("POST", "/pools", {"name": "w"}, 422),
        ("PATCH", "/pools/nowhere", {"slots": 1}, 404),
        ("DELETE", "/pools/nowhere", None, 404),
        ("DELETE", "/pools/default_pool", None, 422),
    ],
)
def test_a_bad_request_changes_nothing(
    api: Api, method: str, path: str, body: object, status: int
) -> None:
    assert api.ask(method, path, body).status == status
    assert api.get("/pools")["total_entries"] == 1


def test_a_viewer_may_read_pools_and_not_change_them(api: Api) -> None:
    viewer = api.of(UserIdentity("zoe", Role.VIEWER))

    assert viewer.get("/pools")["total_entries"] == 1
    assert viewer.ask("POST", "/pools", {"name": "w", "slots": 1}).status == 403
