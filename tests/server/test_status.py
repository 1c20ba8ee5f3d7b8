"""Health, metrics and the access log of the server."""

from __future__ import annotations

import asyncio
import gc
import http.client
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from remembered import remember
from talk import ADMIN, Served

from holdfast import Connection
from holdfast import commands as c
from holdfast.access.identity import TaskIdentity
from holdfast.commands import Command, CountPurges, QueueObjects, ReserveObjects
from holdfast.errors import StoreUnavailable
from holdfast.model.entry import ApiWriter
from holdfast.model.figures import Figures
from holdfast.model.run import Process
from holdfast.model.service import ServiceKind
from holdfast.model.value import as_reference
from holdfast.monitoring.service_log import log_to_stderr
from holdfast.server import metrics, status, storage_threads
from holdfast.server.execution.openapi import command_schemas
from holdfast.settings import Logging
from holdfast.testing.memory_store import MemoryStore

MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def fresh_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the metrics between tests."""
    monkeypatch.setattr(status, "FRESH", 0.0)
    monkeypatch.setattr(status, "RENDERED", 0.0)


def test_a_server_whose_store_answers_is_ready(served: Served) -> None:
    health = served.ask("GET", "/health")
    live = served.ask("GET", "/health/live")

    assert (health.status, health.json["status"]) == (200, "ready")
    assert health.json["database"] == {"status": "healthy"}
    assert health.json["scheduler"] == health.json["triggerer"] == {"status": "absent"}
    assert health.json["disk"]["status"] == "healthy"
    assert set(health.json["disk"]["free_bytes"]) == {"home", "database"}
    assert (live.status, live.json["status"]) == (200, "alive")


class Broken(MemoryStore):
    broken = False

    def execute(self, command: Command[object]) -> object:  # type: ignore[override]
        if self.broken:
            raise StoreUnavailable("postgresql://app:***@db.internal does not answer")
        return super().execute(command)


def test_a_server_without_its_store_is_alive_and_not_ready(
    make_served: Callable[..., Served], caplog: pytest.LogCaptureFixture
) -> None:
    store = Broken()
    served = Served(store, make_served().settings)
    store.broken = True

    health = served.ask("GET", "/health")
    live = served.ask("GET", "/health/live")
    command = served.ask("POST", "/execution/commands", {"command": "Now"}, token=ADMIN)
    served.close()

    assert (health.status, health.json["status"]) == (503, "not_ready")
    assert health.json["database"] == {"status": "unhealthy"}
    assert "scheduler" not in health.json
    assert live.status == 200
    assert (command.status, command.reason, command.headers["retry-after"]) == (
        503,
        "unavailable",
        "1",
    )
    assert b"db.internal" not in health.body + command.body
    assert "db.internal" in caplog.text


def test_a_store_that_hangs_does_not_hang_the_health_check(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def hang(command: object) -> None:
        await asyncio.sleep(30)

    monkeypatch.setattr(status, "STORE_TIMEOUT", 0.1)
    monkeypatch.setattr(served.store, "aexecute", hang)

    answer = served.ask("GET", "/health")

    assert (answer.status, answer.json["status"]) == (503, "not_ready")
    assert "not ready: the database does not answer" in caplog.text


def test_a_health_check_that_fails_late_logs_no_traceback(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed = threading.Event()

    async def fail_late(command: object) -> None:
        await asyncio.sleep(0.3)
        failed.set()
        raise StoreUnavailable("the database does not answer")

    monkeypatch.setattr(status, "STORE_TIMEOUT", 0.1)
    monkeypatch.setattr(served.store, "aexecute", fail_late)

    assert served.ask("GET", "/health").status == 503
    failed.wait(10)
    served.ask("GET", "/health/live")
    gc.collect()

    assert "never retrieved" not in caplog.text


def test_health_knows_whether_schedulers_and_triggerers_are_alive(
    make_served: Callable[..., Served],
) -> None:
    served, process = make_served(), Process("here", 1, "t")

    def report(kind: ServiceKind, lease: timedelta, first: bool = True) -> dict[str, Any]:
        sign = c.ReportService(process=process, kind=kind, lease=lease, first=first)
        served.store.execute(sign)
        answer = served.ask("GET", "/health")
        assert answer.status == 200
        return dict(answer.json[kind])

    alive = report(ServiceKind.SCHEDULER, timedelta(minutes=1))
    lost = report(ServiceKind.TRIGGERER, timedelta(0))
    served.store.execute(c.EndService(process, Figures()))

    assert alive["status"] == "healthy"
    assert abs(datetime.fromisoformat(alive["latest_heartbeat"]) - datetime.now(UTC)) < MINUTE
    assert lost["status"] == "unhealthy"
    assert served.ask("GET", "/health").json["triggerer"] == {"status": "absent"}


def test_a_server_whose_disk_is_full_is_not_ready(
    make_served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = make_served()
    monkeypatch.setattr(status, "LEAST_FREE", 2**60)

    health = served.ask("GET", "/health")

    assert (health.status, health.json["status"]) == (503, "not_ready")
    assert (health.json["why"], health.json["disk"]["status"]) == ("the disk is full", "unhealthy")
    assert health.json["database"] == {"status": "healthy"}


def test_the_metrics_have_free_space_beside_the_figures_of_the_store(served: Served) -> None:
    figures = served.ask("GET", "/metrics").body

    assert b"holdfast_disk_free_bytes" in figures
    assert b"holdfast_purge_queue" in figures


def test_a_disk_that_hangs_takes_no_threads_of_the_database(
    make_served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = make_served()
    goes_on = threading.Event()
    measured: list[object] = []

    def hang(settings: object) -> dict[str, int]:
        measured.append(settings)
        goes_on.wait(30)
        return {}

    monkeypatch.setattr(storage_threads, "free_space", hang)
    monkeypatch.setattr(status, "STORE_TIMEOUT", 1.0)

    with ThreadPoolExecutor(40) as pool:
        first = list(pool.map(lambda _: served.ask("GET", "/health"), range(40)))
    figures = served.ask("GET", "/metrics").body
    health = served.ask("GET", "/health")
    goes_on.set()

    assert {one.status for one in first} == {503}
    assert health.json["why"] == "the disk does not respond"
    assert health.json["database"] == {"status": "healthy"}
    assert b"holdfast_purge_queue" in figures
    assert len(measured) == 1


def metric(text: str, name: str) -> float:
    lines = [line for line in text.splitlines() if line.startswith(name + " ")]
    return float(lines[0].rpartition(" ")[2]) if lines else 0.0


def test_metrics_count_requests_commands_and_refusals(served: Served, task: TaskIdentity) -> None:
    place = f"/execution/store/ti/{task.scope.ti_id}"
    route = 'route="/execution/store/ti/{ti_id}/{key:path}"'
    names = [
        f'holdfast_requests_total{{method="GET",{route},status="404"}}',
        f'holdfast_request_seconds_count{{method="PUT",{route}}}',
        'holdfast_commands_total{command="Set",outcome="ok"}',
        'holdfast_commands_total{command="Get",outcome="unknown_task_instance"}',
        "holdfast_refused_tokens_total",
    ]
    before = served.ask("GET", "/metrics").body.decode()

    served.ask("GET", f"{place}/nix", token=task)
    served.ask("PUT", f"{place}/a", {"value": 1}, token=task)
    served.ask("PUT", f"{place}/a", {"value": 1}, token="bad")
    unknown = {"type": "task", "dag_id": "x", "run_id": "x", "task_id": "x"}
    served.ask(
        "POST", "/execution/commands", {"command": "Get", "scope": unknown, "key": "a"}, token=ADMIN
    )
    answer = served.ask("GET", "/metrics")
    after = answer.body.decode()

    grown = [metric(after, name) - metric(before, name) for name in names]
    assert grown == [1, 1, 1, 1, 1]
    assert answer.headers["content-type"].startswith("text/plain")


def test_metrics_contain_no_path_chosen_by_a_client(served: Served) -> None:
    served.ask("GET", "/made/up")
    served.ask("MADEUP", "/health")

    figures = served.ask("GET", "/metrics").body

    assert b"made" not in figures
    assert b"MADEUP" not in figures


@pytest.fixture
def service_log() -> Iterator[Callable[[Logging], None]]:
    """Yield a function that turns on the log of a service for the test."""
    root, level = logging.getLogger(), logging.getLogger("holdfast").level
    handlers, hooks = list(root.handlers), (sys.excepthook, threading.excepthook)
    yield log_to_stderr
    root.handlers[:] = handlers
    logging.getLogger("holdfast").setLevel(level)
    logging.captureWarnings(False)
    sys.excepthook, threading.excepthook = hooks


def test_each_request_is_one_line_of_the_log(
    served: Served,
    task: TaskIdentity,
    service_log: Callable[[Logging], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    service_log(Logging())
    served.put(task.scope, "a", "1")
    answer = served.ask("GET", f"/execution/store/ti/{task.scope.ti_id}/a", token=task)

    [line] = capsys.readouterr().err.splitlines()

    head, _, text = line.partition(": ")
    assert re.fullmatch(r"[\dT:.-]+Z INFO holdfast.access", head)
    assert text.startswith(f"GET /execution/store/ti/{task.scope.ti_id}/a 200, ")
    who, request = f"attempt 1 of {task.scope}", answer.headers["x-request-id"]
    assert text.endswith(f" {len(answer.body)} bytes, request {request} by {who} (Get)")


def test_the_access_log_as_json_has_no_token(
    served: Served,
    task: TaskIdentity,
    service_log: Callable[[Logging], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    service_log(Logging(format="json"))
    token = served.token(task)
    place = f"/execution/store/ti/{task.scope.ti_id}/a%2Fb"
    served.put(task.scope, "a/b", "1")
    served.ask("GET", f"/health/live?token={token}")
    answer = served.ask("GET", place, token=token)

    logged = capsys.readouterr().err
    lines = [msgspec.json.decode(line) for line in logged.splitlines()]

    assert token not in logged
    assert [(line["method"], line["status"], line["path"]) for line in lines[-2:]] == [
        ("GET", 200, "/health/live"),
        ("GET", 200, place),
    ]
    assert lines[-1]["who"] == f"attempt 1 of {task.scope}"
    assert lines[-1]["bytes"] == len(answer.body)
    assert lines[-1]["request"] == answer.headers["x-request-id"]
    assert 0 < lines[-1]["ms"] < 10_000


def test_the_access_log_can_be_turned_off(
    make_served: Callable[..., Served],
    service_log: Callable[[Logging], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    service_log(Logging())
    served = make_served(api__access_log="false")

    served.ask("GET", "/health")

    assert capsys.readouterr().err == ""


def test_a_connection_is_kept_alive(served: Served, task: TaskIdentity) -> None:
    connection = http.client.HTTPConnection(served.address, timeout=10)
    connection.connect()
    first = connection.sock
    headers = {"Authorization": f"Bearer {served.token(task)}"}
    for _ in range(10):
        connection.request("GET", f"/execution/store/ti/{task.scope.ti_id}/a", headers=headers)
        assert connection.getresponse().read()

    assert connection.sock is first
    connection.close()


def test_the_description_names_every_route_once(served: Served) -> None:
    described = served.ask("GET", "/openapi.json").json
    operations = [
        operation["operationId"]
        for path in described["paths"].values()
        for operation in path.values()
    ]

    assert len(operations) == len(set(operations))
    assert "/execution/commands" in described["paths"]
    assert "WireSet" in described["components"]["schemas"]


def test_the_first_concurrent_requests_get_the_whole_description(
    make_served: Callable[..., Served],
) -> None:
    served = make_served()
    command_schemas.cache_clear()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: served.ask("GET", "/openapi.json").body, range(8)))

    assert len(set(answers)) == 1
    assert b"WireCommand" in answers[0]


def test_a_store_passed_in_stays_open_when_the_server_closes(
    make_served: Callable[..., Served],
) -> None:
    store = MemoryStore()
    served = Served(store, make_served().settings)

    served.server.close()

    assert store.execute(c.Now())


def test_metrics_have_the_length_of_the_purge_queue(served: Served, task: TaskIdentity) -> None:
    ann = ApiWriter("ann")
    served.store.execute(QueueObjects(((task.scope, "k", as_reference("s3://lake/1")),)))
    reserved = (("k", as_reference("s3://lake/2"), "mine"),)
    served.store.execute(ReserveObjects(task.scope, reserved, ann))

    figures = served.ask("GET", "/metrics").body.decode()

    names = [f'holdfast_purge_queue{{state="{state}"}}' for state in ("waiting", "reserved")]
    assert [metric(figures, name) for name in names] == [1, 1]


def test_metrics_have_the_watermark_of_each_asset(served: Served) -> None:
    connection = Connection(served.store)
    orders = connection.asset_store(name="orders", declare=True)
    long = connection.asset_store(name="x" * 1500, declare=True)
    other = connection.asset_store(name="x" * 1499 + "y", declare=True)
    orders.set("note/load", "the user's own")
    remember(orders, "2026-01-31T04:00:00.500000Z", type="timestamp", rows=7)
    remember(orders, "2020-01-01", type="date", key="days", rows=None, seconds=0.25)
    remember(orders, "2019-01-01T00:00:00.000000Z", type="timestamp", kind="backfill")
    for store in (long, other):
        remember(store, 5)

    figures = dict(
        line.rsplit(" ", 1)
        for line in served.ask("GET", "/metrics").body.decode().splitlines()
        if line.startswith("holdfast_load_")
    )

    mark, days = ('{asset="orders",key="watermark"}', '{asset="orders",key="days"}')
    assert float(figures[f"holdfast_load_watermark_timestamp_seconds{mark}"]) == 1769832000.5
    assert float(figures[f"holdfast_load_watermark_timestamp_seconds{days}"]) == 1577836800
    assert figures[f"holdfast_load_rows{mark}"] == "7.0"
    assert f"holdfast_load_rows{days}" not in figures
    assert figures[f"holdfast_load_duration_seconds{days}"] == "0.25"
    ended = figures[f"holdfast_load_end_timestamp_seconds{mark}"]
    assert time.time() - 60 < float(ended) < time.time() + 1
    named = [name for name in figures if name.startswith('holdfast_load_rows{asset="xxx')]
    assert len(named) == 2
    assert max(map(len, named)) < 300
    assert not any("note" in name for name in figures)
    assert sum("watermark_timestamp" in name for name in figures) == 2


def test_the_count_of_the_purge_queue_is_cached_for_seconds(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []
    ask = served.store.aexecute

    async def counting(command: Command[Any]) -> Any:
        counted.append(type(command))
        return await ask(command)

    monkeypatch.setattr(served.store, "aexecute", counting)

    served.ask("GET", "/metrics")
    monkeypatch.setattr(status, "FRESH", 60.0)
    again = [served.ask("GET", "/metrics").body.decode() for _ in range(2)]
    assert all("holdfast_purge_queue" in figures for figures in again)
    assert counted.count(CountPurges) == 1

    monkeypatch.setattr(status, "FRESH", 0.0)
    served.ask("GET", "/metrics")
    assert counted.count(CountPurges) == 2


def test_metrics_are_cached_for_a_while(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = []
    monkeypatch.setattr(metrics, "exposition", lambda: rendered.append(1) or b"# figures\n")

    served.ask("GET", "/metrics")
    monkeypatch.setattr(status, "RENDERED", 60.0)
    again = [served.ask("GET", "/metrics").body for _ in range(2)]

    assert all(b"# figures" in figures for figures in again)
    assert len(rendered) == 1


def test_metrics_omit_a_queue_that_cannot_be_counted(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(command: Command[object]) -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(served.store, "aexecute", fail)

    answer = served.ask("GET", "/metrics")

    assert answer.status == 200
    assert "holdfast_purge_queue" not in answer.body.decode()
