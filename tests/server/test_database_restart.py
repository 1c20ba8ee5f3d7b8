"""Database restart under load: requests wait or fail clearly, and traffic continues."""

from __future__ import annotations

import http.client
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Timer

import msgspec
import pytest
from killable import KillableServer
from servers import postgres_server
from talk import JSON, Served

from holdfast import commands as c
from holdfast.access.identity import TaskIdentity
from holdfast.connection import open_store
from holdfast.server.serve import STORE_RETRY_WINDOW
from holdfast.settings import load
from holdfast.stores.sql.schema import migrate

CLIENTS = 4


@pytest.fixture
def database() -> Iterator[KillableServer]:
    with postgres_server() as server:
        killable = KillableServer(server)
        yield killable
        killable.kill()


@pytest.fixture
def served(database: KillableServer, tmp_path: Path) -> Iterator[Served]:
    url = database.server.new_database()
    migrate(url)
    environ = {"HOLDFAST__DATABASE__URL": url, "HOLDFAST__API__ACCESS_LOG": "false"}
    settings = load(tmp_path, environ)
    served = Served(open_store(settings, retry_window=STORE_RETRY_WINDOW), settings)
    yield served
    served.close()


def count_up(served: Served, task: TaskIdentity, stop: Event) -> tuple[Counter[int], int]:
    """Write 1, 2, 3… until stopped; return the statuses, and the last acknowledged number."""
    statuses: Counter[int] = Counter()
    taken = 0
    headers = JSON | {"Authorization": f"Bearer {served.token(task)}"}
    connection = http.client.HTTPConnection(served.address, timeout=30)
    path = f"/execution/store/ti/{task.scope.ti_id}/counter"
    while not stop.is_set():
        body = msgspec.json.encode({"value": taken + 1})
        connection.request("PUT", path, body, headers)
        response = connection.getresponse()
        told = response.read()
        statuses[response.status] += 1
        if response.status == 204:
            taken += 1
        else:
            assert msgspec.json.decode(told)["detail"]["reason"] == "unavailable"
    connection.close()
    return statuses, taken


@pytest.mark.chaos
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_traffic_continues_when_the_database_is_available_again(
    served: Served, database: KillableServer, end: str
) -> None:
    tasks = [served.new_attempt(f"task {number}") for number in range(CLIENTS)]
    stop = Event()

    with ThreadPoolExecutor(CLIENTS) as pool:
        counting = [pool.submit(count_up, served, task, stop) for task in tasks]
        time.sleep(0.5)
        getattr(database, end)()
        time.sleep(1)
        database.start()
        Timer(1.5, stop.set).start()
        counted = [one.result(60) for one in counting]

    for task, (statuses, taken) in zip(tasks, counted, strict=True):
        stored = served.store.execute(c.Get(task.scope, "counter"))
        assert set(statuses) <= {204, 503}
        assert taken > 10
        # A write whose answer was lost with the database may have been executed.
        assert int(stored or 0) in (taken, taken + 1)
