"""Rate limit, and limit of concurrent requests."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from talk import ADMIN, Served

from holdfast.access.identity import WorkerIdentity
from holdfast.commands import Command
from holdfast.errors import TooManyRequests
from holdfast.server.execution import content
from holdfast.server.execution import routes as execution
from holdfast.server.http import limits, middleware
from holdfast.server.http.limits import RateLimit
from holdfast.testing.memory_store import MemoryStore

NOW = {"command": "Now"}


def test_a_token_over_the_rate_limit_has_to_wait(make_served: Callable[..., Served]) -> None:
    served = make_served(api__rate_limit="5")

    answers = [served.ask("POST", "/execution/commands", NOW, token=ADMIN) for _ in range(12)]
    refused = [answer for answer in answers if answer.status == 429]
    other = served.ask("POST", "/execution/commands", NOW, token=WorkerIdentity("w"))

    assert [answer.status for answer in answers[:5]] == [200] * 5
    assert refused
    assert {answer.reason for answer in refused} == {"too_many_requests"}
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    assert other.status == 200


@pytest.mark.full
def test_after_retry_after_a_token_is_accepted_again(
    make_served: Callable[..., Served],
) -> None:
    served = make_served(api__rate_limit="4")
    statuses = []
    for _ in range(12):
        answer = served.ask("POST", "/execution/commands", NOW, token=ADMIN)
        if answer.status == 429:
            time.sleep(int(answer.headers["retry-after-ms"]) / 1000)
            answer = served.ask("POST", "/execution/commands", NOW, token=ADMIN)
        statuses.append(answer.status)

    assert statuses == [200] * 12


def test_without_a_rate_limit_requests_are_not_limited(
    make_served: Callable[..., Served],
) -> None:
    served = make_served(api__rate_limit="0")

    answers = [served.ask("POST", "/execution/commands", NOW, token=ADMIN) for _ in range(30)]

    assert {answer.status for answer in answers} == {200}


def test_a_rate_below_one_allows_one_request() -> None:
    rate = RateLimit(1)

    rate.count(ADMIN)

    with pytest.raises(TooManyRequests, match="more than 1 requests per second"):
        rate.count(ADMIN)


def test_the_number_of_remembered_bearers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_BEARERS", 10)
    rate = RateLimit(1000)

    for number in range(100):
        rate.count(WorkerIdentity(str(number)))

    assert len(rate._ends) == 10


def test_the_most_recent_bearer_is_forgotten_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_BEARERS", 2)
    rate = RateLimit(1)
    first, second, third = (WorkerIdentity(str(number)) for number in range(3))
    rate.count(first)
    rate.count(second)
    with pytest.raises(TooManyRequests):
        rate.count(first)

    rate.count(third)

    with pytest.raises(TooManyRequests):
        rate.count(first)
    rate.count(second)


class BlockedStore(MemoryStore):
    """Store that answers when the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.open = Event()
        self.open.set()

    def execute(self, command: Command[object]) -> object:  # type: ignore[override]
        self.open.wait(20)
        return super().execute(command)


def test_an_overloaded_server_responds_with_503(
    monkeypatch: pytest.MonkeyPatch, make_served: Callable[..., Served]
) -> None:
    monkeypatch.setattr(middleware, "MOST_UNDER_WAY", 3)
    store = BlockedStore()
    served = Served(store, make_served().settings)
    store.open.clear()

    def ask() -> tuple[int, str]:
        answer = served.ask("POST", "/execution/commands", NOW, token=ADMIN)
        if answer.status == 503:
            store.open.set()
            assert answer.headers["retry-after"] == "1"
            return answer.status, answer.reason
        return answer.status, ""

    with ThreadPoolExecutor(4) as pool:
        answers = sorted(pool.map(lambda _: ask(), range(4)))
    served.close()

    assert answers == [(200, "")] * 3 + [(503, "unavailable")]


def test_an_idle_connection_is_closed_for_a_new_one(
    monkeypatch: pytest.MonkeyPatch, make_served: Callable[..., Served]
) -> None:
    served = make_served()
    monkeypatch.setattr(served.server._server.config.app.state.connections, "most", 2)
    first, second = (http.client.HTTPConnection(served.address, timeout=10) for _ in range(2))
    for connection in (first, second):
        connection.request("GET", "/health/live")
        connection.getresponse().read()

    answer = served.ask("GET", "/health/live")

    assert answer.status == 200
    assert first.sock.recv(1) == b""
    second.request("GET", "/health/live")
    assert second.getresponse().read()
    for connection in (first, second):
        connection.close()


@pytest.mark.parametrize(("size", "aside"), [(10, False), (limits.LARGE_BODY, True)])
def test_a_large_body_is_parsed_outside_the_event_loop(
    served: Served, monkeypatch: pytest.MonkeyPatch, size: int, aside: bool
) -> None:
    threads = []

    def noted(*given: Any) -> Any:
        threads.append(asyncio._get_running_loop() is None)
        return content.decode_command(*given)

    monkeypatch.setattr(execution, "decode_command", noted)
    command = {"command": "ListTasks", "dag_id": "d" * size, "run_id": "r"}

    served.ask("POST", "/execution/commands", command, token=ADMIN)

    assert threads == [aside]
