"""Database that holds its connections and does not answer: clients get a timely error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from killable import KillableServer
from servers import mariadb_server, postgres_server
from talk import Answer, Served

from holdfast import commands as c
from holdfast.access.identity import TaskIdentity
from holdfast.connection import open_store
from holdfast.server.serve import ANSWER_TIMEOUT, build
from holdfast.settings import load
from holdfast.stores.sql import SqlStore
from holdfast.stores.sql.schema import migrate

PATIENCE = timedelta(seconds=2)
MORE_THAN_CONNECTIONS = 20


@pytest.fixture(params=[postgres_server, mariadb_server], ids=["postgres", "mariadb"])
def database(request: pytest.FixtureRequest) -> Iterator[KillableServer]:
    with request.param() as server:
        yield KillableServer(server)


@pytest.fixture
def served(database: KillableServer, tmp_path: Path) -> Iterator[Served]:
    url = database.server.new_database()
    migrate(url)
    environ = {"HOLDFAST__DATABASE__URL": url, "HOLDFAST__API__ACCESS_LOG": "false"}
    settings = load(tmp_path, environ)
    store = open_store(settings, retry_window=PATIENCE, answer_timeout=PATIENCE)
    served = Served(store, settings)
    yield served
    served.close()


@contextmanager
def hanging(database: KillableServer) -> Iterator[None]:
    database.hang()
    try:
        yield
    finally:
        database.go_on()


def write(served: Served, task: TaskIdentity) -> Answer:
    path = f"/execution/store/ti/{task.scope.ti_id}/k"
    return served.ask("PUT", path, {"value": 1}, token=task)


@pytest.mark.full
def test_requests_are_answered_while_the_database_hangs_and_executed_again_after_it(
    served: Served, database: KillableServer
) -> None:
    task = served.new_attempt("load")
    assert write(served, task).status == 204

    with hanging(database):
        began = time.monotonic()
        first = write(served, task)
        waited = time.monotonic() - began
        with ThreadPoolExecutor(MORE_THAN_CONNECTIONS) as pool:
            more = list(pool.map(lambda _: write(served, task), range(MORE_THAN_CONNECTIONS)))

    assert (first.status, first.reason) == (503, "unavailable")
    assert waited < PATIENCE.total_seconds() + 3
    assert {answer.status for answer in more} == {503}
    assert write(served, task).status == 204


def test_the_server_opens_its_store_with_a_timeout(tmp_path: Path) -> None:
    app = build(load(tmp_path, {}))

    ledger = app.state.store
    assert isinstance(ledger, SqlStore)
    assert ledger._answer_timeout == ANSWER_TIMEOUT.total_seconds()
    ledger.close()


async def test_a_command_that_waits_for_a_lock_times_out(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with SqlStore(url) as other, SqlStore(url, answer_timeout=timedelta(seconds=0.2)) as store:
        other.execute(c.DeclareAsset("orders"))
        holder = other._pool.take()
        holder.cursor.execute("BEGIN IMMEDIATE")

        with pytest.raises(Exception, match="may or may not have happened"):
            await store.aexecute(c.DeclareAsset("customers"))

        holder.cursor.execute("ROLLBACK")
        other._pool.give(holder)
