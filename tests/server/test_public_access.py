"""Tokens and roles of the public API."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pipeline
import pytest
from public_client import STATE, Api, serving
from servers import SqliteDatabase

from holdfast.access.identity import (
    Identity,
    JobIdentity,
    TaskIdentity,
    UserIdentity,
    WatcherIdentity,
    WorkerIdentity,
)
from holdfast.model.role import Role
from holdfast.model.run import Watch
from holdfast.model.scope import AssetScope, TaskScope

TASK = TaskScope("etl", "r1", "extract")
READS = ["/dags", "/dags/etl", "/dags/etl/dagRuns", "/assets", STATE, "/state-store/assets"]
EDITS: list[tuple[str, str, Any]] = [
    ("PUT", f"{STATE}/k", {"value": 1}),
    ("DELETE", f"{STATE}/k", None),
    ("DELETE", STATE, None),
    ("PATCH", "/dags/etl", {"is_paused": True}),
    ("POST", "/dags/etl/dagRuns", {}),
    ("POST", "/dags/etl/clearTaskInstances", {"dag_run_id": "r1", "dry_run": False}),
    ("PATCH", "/dags/etl/dagRuns/r1/taskInstances/report", {"new_state": "success"}),
    ("PATCH", "/dags/etl/dagRuns/r1", {"state": "failed"}),
    ("POST", "/assets/events", {"name": "orders"}),
    ("POST", "/assets", {"name": "new"}),
]
ADMINISTRATION = [("DELETE", "/dags/etl/dagRuns/r1"), ("DELETE", "/assets/1")]


@pytest.fixture
def api(sqlite_database: SqliteDatabase, tmp_path: Path) -> Iterator[Api]:
    with serving(sqlite_database.empty(), tmp_path) as api:
        pipeline.half_way(api.store)
        yield api


def test_a_viewer_reads_and_changes_nothing(api: Api) -> None:
    viewer = api.of(UserIdentity("vera", Role.VIEWER))

    for path in READS:
        assert viewer.ask("GET", path).status == 200
    for method, path, body in EDITS:
        reply = viewer.ask(method, path, body)
        assert (reply.status, reply.reason) == (403, "forbidden"), path


def test_an_editor_writes_and_administers_nothing(api: Api) -> None:
    editor = api.of(UserIdentity("eddi", Role.EDITOR))

    for method, path, body in EDITS:
        assert editor.ask(method, path, body).status in (200, 201, 204), path
    for method, path in ADMINISTRATION:
        reply = editor.ask(method, path)
        assert (reply.status, reply.reason) == (403, "forbidden"), path
    assert len(api.get("/assets")["assets"]) == 2


def test_an_admin_does_everything(api: Api) -> None:
    for method, path in ADMINISTRATION:
        assert api.ask(method, path).status == 204, path


@pytest.mark.parametrize(
    "identity",
    [
        TaskIdentity(TASK, 1),
        JobIdentity(TASK, "job.intent", str(uuid4())),
        WatcherIdentity(Watch(AssetScope(name="orders", uri="s3://lake/orders"), "w", 1)),
        WorkerIdentity("w1"),
    ],
    ids=["task", "job", "watcher", "worker"],
)
def test_only_tokens_of_users_are_accepted(api: Api, identity: Identity) -> None:
    reply = api.of(identity).ask("GET", f"{STATE}/k")

    assert (reply.status, reply.reason) == (403, "forbidden")


def test_a_request_without_a_token_gets_a_hint(api: Api) -> None:
    reply = api.ask("PUT", f"{STATE}/k", b"not even JSON", token="")

    assert (reply.status, reply.reason) == (401, "unauthorized")
    assert reply.headers["www-authenticate"] == "Bearer"


def test_an_invalid_token_is_not_accepted(api: Api) -> None:
    ended = api.server.tokens.issue(UserIdentity("ann", Role.ADMIN), timedelta(minutes=-1))

    for token in ("x.y.z", ended):
        reply = api.ask("PUT", f"{STATE}/k", {"value": 1}, token=token)
        assert (reply.status, reply.reason) == (401, "unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"
        assert token not in str(reply.json)
    assert api.ask("GET", f"{STATE}/k").status == 404
