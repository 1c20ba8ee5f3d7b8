"""Airflow's own client, as its workers use it, against a server of ours."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import quote

import pytest
from airflow_client import Airflow, Client, Operations, Raised
from holdfast_server import HoldfastServer, Task

from holdfast.commands import DeclareAsset, FinishAttempt, GetEntry, StartAttempt

NAME = "daily orders / €"
URI = "s3://lake/orders?region=eu&year=2026"

KEYS = [
    "plain",
    "with/slashes/in it",
    "/begins and ends with one/",
    "double//slash",
    "spaces  and more ",
    "emoji 🦉 and umläut",
    "100%",
    "already%2Fencoded%20",
    "%25 + & = ? # ; @ :",
    "../up/../and/./down",
    "'quotes' \"and\" <brackets>",
    "clear",
]

VALUES = [
    True,
    False,
    0,
    -17,
    9007199254740993,
    1.5,
    "",
    'text with "quotes", \n and 🦉',
    [],
    {},
    [1, [None, {"deep": [True]}]],
    {"page": 3, "null": None, "": "empty key", "ключ": "значение"},
]


class Worker(NamedTuple):
    """A running task with Airflow's client in its hands."""

    task: Task
    client: Client

    @property
    def ti_id(self) -> str:
        return self.task.ti_id

    @property
    def tasks(self) -> Operations:
        return self.client.task_state_store

    @property
    def assets(self) -> Operations:
        return self.client.asset_state_store


@pytest.fixture(scope="module")
def worker(server: HoldfastServer, airflow: Airflow) -> Worker:
    """Of a task that declares one asset."""
    server.store.execute(DeclareAsset(NAME, URI))
    return begin(server, airflow, "load", NAME)


def begin(server: HoldfastServer, airflow: Airflow, task_id: str, *assets: str) -> Worker:
    task = server.task(task_id, *assets)
    return Worker(task, airflow.client(server.url, task.token))


@pytest.fixture(params=[{"name": NAME}, {"uri": URI}], ids=["by-name", "by-uri"])
def asset(request: pytest.FixtureRequest) -> dict[str, str]:
    """The asset, as calls name it."""
    named: dict[str, str] = request.param
    return named


def test_values_of_a_task_come_back_as_they_were(worker: Worker) -> None:
    for number, value in enumerate(VALUES):
        worker.tasks.set(worker.ti_id, str(number), value, None)

    answers = [worker.tasks.get(worker.ti_id, str(number)) for number in range(len(VALUES))]

    assert answers == [{"type": "TaskStateStoreResponse", "value": value} for value in VALUES]


def test_values_of_an_asset_come_back_as_they_were(worker: Worker, asset: dict[str, str]) -> None:
    for number, value in enumerate(VALUES):
        worker.assets.set(str(number), value, **asset)

    answers = [worker.assets.get(str(number), **asset) for number in range(len(VALUES))]

    assert answers == [{"type": "AssetStateStoreResponse", "value": value} for value in VALUES]


def test_any_key_of_a_task_is_set_read_and_deleted(worker: Worker) -> None:
    for key in KEYS:
        worker.tasks.set(worker.ti_id, key, f"of {key}", None)
    for key in KEYS:
        assert worker.tasks.get(worker.ti_id, key)["value"] == f"of {key}"
        worker.tasks.delete(worker.ti_id, key)
        assert worker.tasks.get(worker.ti_id, key)["error"] == "TASK_STORE_NOT_FOUND"


def test_any_key_of_an_asset_is_set_read_and_deleted(worker: Worker, asset: dict[str, str]) -> None:
    for key in (*KEYS, ".", ".."):
        worker.assets.set(key, f"of {key}", **asset)
    for key in (*KEYS, ".", ".."):
        assert worker.assets.get(key, **asset)["value"] == f"of {key}"
        worker.assets.delete(key, **asset)
        assert worker.assets.get(key, **asset)["error"] == "ASSET_STORE_NOT_FOUND"


@pytest.mark.parametrize("key", [".", ".."])
def test_a_key_that_the_client_drops_from_the_path_is_refused(worker: Worker, key: str) -> None:
    """The library below Airflow's client resolves such a path as if it were a directory's."""
    with pytest.raises(Raised, match="40[45]"):
        worker.tasks.set(worker.ti_id, key, 1, None)


def test_a_missing_key_of_a_task_is_not_an_error(worker: Worker) -> None:
    assert worker.tasks.get(worker.ti_id, "never/set") == {
        "type": "ErrorResponse",
        "error": "TASK_STORE_NOT_FOUND",
        "detail": {"key": "never/set"},
    }


def test_a_missing_key_of_an_asset_is_not_an_error(worker: Worker, asset: dict[str, str]) -> None:
    assert worker.assets.get("never/set", **asset) == {
        "type": "ErrorResponse",
        "error": "ASSET_STORE_NOT_FOUND",
        "detail": {"key": "never/set"},
    }


def test_deleting_a_missing_key_does_nothing(worker: Worker, asset: dict[str, str]) -> None:
    assert worker.tasks.delete(worker.ti_id, "never set")["ok"] is True
    assert worker.assets.delete("never set", **asset)["ok"] is True


def test_clear_removes_every_key_of_the_task_and_of_no_other(
    worker: Worker, server: HoldfastServer, airflow: Airflow
) -> None:
    other = begin(server, airflow, "spared")
    other.tasks.set(other.ti_id, "key", 1, None)
    worker.tasks.set(worker.ti_id, "a", 1, None)
    worker.tasks.set(worker.ti_id, "a/b", 1, None)

    assert worker.tasks.clear(worker.ti_id)["ok"] is True

    assert worker.tasks.get(worker.ti_id, "a")["error"] == "TASK_STORE_NOT_FOUND"
    assert worker.tasks.get(worker.ti_id, "a/b")["error"] == "TASK_STORE_NOT_FOUND"
    assert other.tasks.get(other.ti_id, "key")["value"] == 1


def test_clear_removes_every_key_of_the_asset_and_of_no_task(
    worker: Worker, asset: dict[str, str]
) -> None:
    worker.tasks.set(worker.ti_id, "a", 1, None)
    worker.assets.set("a", 1, **asset)
    worker.assets.set("a/b", 1, **asset)

    assert worker.assets.clear(**asset)["ok"] is True

    assert worker.assets.get("a", **asset)["error"] == "ASSET_STORE_NOT_FOUND"
    assert worker.assets.get("a/b", **asset)["error"] == "ASSET_STORE_NOT_FOUND"
    assert worker.tasks.get(worker.ti_id, "a")["value"] == 1


def test_an_asset_is_the_same_by_its_name_and_by_its_uri(worker: Worker) -> None:
    worker.assets.set("watermark", 1, name=NAME)
    worker.assets.set("watermark", 2, uri=URI)

    assert worker.assets.get("watermark", name=NAME)["value"] == 2


def test_a_value_expires_when_the_client_says(worker: Worker, server: HoldfastServer) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)

    worker.tasks.set(worker.ti_id, "until tomorrow", 1, tomorrow.isoformat())

    entry = server.store.execute(GetEntry(worker.task.scope, "until tomorrow"))
    assert entry is not None
    assert entry.expires_at == tomorrow


def test_a_value_without_expiry_stays(worker: Worker, server: HoldfastServer) -> None:
    worker.tasks.set(worker.ti_id, "for good", 1, None)

    entry = server.store.execute(GetEntry(worker.task.scope, "for good"))
    assert entry is not None
    assert entry.expires_at is None


def test_an_expired_value_is_not_found(worker: Worker) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.5)
    worker.tasks.set(worker.ti_id, "gone soon", 1, soon.isoformat())

    time.sleep(0.6)

    assert worker.tasks.get(worker.ti_id, "gone soon")["error"] == "TASK_STORE_NOT_FOUND"


def test_null_is_refused(worker: Worker, asset: dict[str, str]) -> None:
    with pytest.raises(Raised, match="422"):
        worker.tasks.set(worker.ti_id, "key", None, None)
    with pytest.raises(Raised, match="422"):
        worker.assets.set("key", None, **asset)


def test_a_token_that_nobody_signed_is_refused(
    worker: Worker, server: HoldfastServer, airflow: Airflow
) -> None:
    head, body, _ = worker.task.token.split(".")
    forger = airflow.client(server.url, f"{head}.{body}.{'A' * 43}")

    with pytest.raises(Raised) as refusal:
        forger.task_state_store.set(worker.ti_id, "forged", 1, None)

    assert refusal.value.args[0] == "ServerResponseError"
    assert refusal.value.status == 403
    assert refusal.value.detail["reason"] == "token_refused"
    assert worker.tasks.get(worker.ti_id, "forged")["error"] == "TASK_STORE_NOT_FOUND"


def test_a_client_without_a_token_is_refused(
    worker: Worker, server: HoldfastServer, airflow: Airflow
) -> None:
    with pytest.raises(Raised) as refusal:
        airflow.client(server.url, "").task_state_store.get(worker.ti_id, "key")

    assert refusal.value.status == 401


def test_the_id_of_another_task_is_refused(worker: Worker, server: HoldfastServer) -> None:
    other = server.task("another")

    with pytest.raises(Raised) as refusal:
        worker.tasks.get(other.ti_id, "key")

    assert refusal.value.status == 403


def test_an_asset_that_the_task_does_not_declare_is_refused(
    worker: Worker, server: HoldfastServer
) -> None:
    server.store.execute(DeclareAsset("customers", "s3://lake/customers"))

    with pytest.raises(Raised) as refusal:
        worker.assets.set("watermark", 1, name="customers")

    assert refusal.value.status == 403


def test_the_client_takes_the_new_token_before_its_own_runs_out(
    server: HoldfastServer, airflow: Airflow
) -> None:
    task = server.task("renewed", options=("--lifetime", "4s"))
    client = airflow.client(server.url, task.token)
    late = airflow.client(server.url, task.token)

    time.sleep(2.5)
    client.task_state_store.set(task.ti_id, "key", 1, None)
    time.sleep(6.8)

    assert client.token != task.token
    assert client.task_state_store.get(task.ti_id, "key")["value"] == 1
    with pytest.raises(Raised, match="403"):
        late.task_state_store.get(task.ti_id, "key")


def test_an_attempt_that_has_ended_may_not_write(server: HoldfastServer, airflow: Airflow) -> None:
    worker = begin(server, airflow, "ended")
    worker.tasks.set(worker.ti_id, "key", 1, None)
    server.store.execute(FinishAttempt(worker.task.writer, succeeded=True))

    with pytest.raises(Raised) as refusal:
        worker.tasks.set(worker.ti_id, "key", 2, None)

    assert refusal.value.status == 409
    entry = server.store.execute(GetEntry(worker.task.scope, "key"))
    assert entry is not None
    assert entry.value == "1"


def test_a_superseded_attempt_may_not_write(server: HoldfastServer, airflow: Airflow) -> None:
    first = begin(server, airflow, "superseded")
    server.store.execute(StartAttempt(first.task.scope))
    second = begin(server, airflow, "superseded")

    with pytest.raises(Raised, match="409"):
        first.tasks.set(first.ti_id, "key", 1, None)

    assert second.ti_id == first.ti_id
    assert second.tasks.set(second.ti_id, "key", 2, None)["ok"] is True


def test_the_older_spelling_of_the_paths_reaches_the_same_entries(worker: Worker) -> None:
    path = f"state/ti/{worker.ti_id}/{quote('a/b', safe='')}"

    worker.client.request("PUT", path, content='{"value": [1, 2], "expires_at": null}')

    assert worker.tasks.get(worker.ti_id, "a/b")["value"] == [1, 2]
    assert worker.client.request("GET", path)["text"] == '{"value":[1,2]}'
    assert worker.client.request("DELETE", f"state/ti/{worker.ti_id}")["status"] == 204
    assert worker.tasks.get(worker.ti_id, "a/b")["error"] == "TASK_STORE_NOT_FOUND"


@pytest.mark.parametrize("named", ["by-name", "by-uri"])
def test_the_older_spelling_reaches_the_same_assets(worker: Worker, named: str) -> None:
    asset = {"by-name": {"name": NAME}, "by-uri": {"uri": URI}}[named]
    query = {**asset, "key": "a/b"}

    worker.client.request("PUT", f"state/asset/{named}/value", params=query, content='{"value": 1}')

    assert worker.assets.get("a/b", **asset)["value"] == 1
    cleared = worker.client.request("DELETE", f"state/asset/{named}/clear", params=asset)
    assert cleared["status"] == 204
    assert worker.assets.get("a/b", **asset)["error"] == "ASSET_STORE_NOT_FOUND"
