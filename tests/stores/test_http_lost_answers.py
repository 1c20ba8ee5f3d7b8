"""Requests or answers lost between client and server: executed once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any

import msgspec
import pytest
from lossy import ANSWER, REQUEST, LossyProxy, losing
from served import ServedStores
from servers import SqliteDatabase
from webserver import free_port

from holdfast import commands as c
from holdfast.access.identity import UserIdentity
from holdfast.errors import StoreUnavailable
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.role import Role
from holdfast.model.run import EmittedEvent
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.portable.transport import Response
from holdfast.server.tokens import open_tokens
from holdfast.settings import Settings
from holdfast.stores.http import HttpStore
from holdfast.stores.sql import SqlStore
from holdfast.testing.runs.samples import FIRST, MINUTE

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
ATTEMPT = TaskWriter(TASK, 1)
ORDERS = AssetScope(name="orders")


@pytest.fixture
def behind(served: ServedStores, sqlite_database: SqliteDatabase) -> SqlStore:
    """Return the store behind the server."""
    store = SqlStore(sqlite_database.empty())
    served.store.become(store)
    store.execute(c.RegisterTask(TASK))
    store.execute(c.StartAttempt(TASK))
    store.execute(c.DeclareAsset("orders"))
    return store


@pytest.fixture
def proxy(served: ServedStores) -> Iterator[LossyProxy]:
    with losing(served.server.url) as proxy:
        yield proxy


@pytest.fixture
def store(served: ServedStores, behind: SqlStore, proxy: LossyProxy) -> Iterator[HttpStore]:
    """Yield the store through a proxy that loses messages."""
    token = served.server.tokens.issue(UserIdentity("ann", Role.ADMIN))
    with HttpStore(proxy.url, token, retry_window=timedelta(seconds=20)) as store:
        yield store


@pytest.fixture(
    params=[[ANSWER], [REQUEST], [ANSWER, REQUEST, ANSWER, ANSWER]],
    ids=["the answer", "the request", "one after the other"],
)
def losses(request: pytest.FixtureRequest) -> list[str]:
    return list(request.param)


def test_a_set_is_one_version(
    store: HttpStore, behind: SqlStore, proxy: LossyProxy, losses: list[str]
) -> None:
    before = store.execute(c.Set(ORDERS, "k", "1", ANN))
    proxy.losses = losses

    version = store.execute(c.Set(ORDERS, "k", "2", ANN))

    assert proxy.losses == []
    steps = behind.execute(c.History(ORDERS, "k"))
    assert [(step.value, step.version) for step in steps] == [("2", version), ("1", before)]


def test_a_write_whose_token_expires_while_it_waits_is_executed_once(
    served: ServedStores, behind: SqlStore, proxy: LossyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = UserIdentity("ann", Role.ADMIN)
    issue = served.server.tokens.issue
    store = HttpStore(proxy.url, issue(ann), retry_window=MINUTE, new_token=lambda: issue(ann))
    transport = store._transport
    attempt = transport._try
    proxy.losses = [ANSWER]

    def then_run_out(*args: Any) -> Response | OSError:
        outcome = attempt(*args)
        if isinstance(outcome, OSError):
            transport.token = issue(ann, timedelta(seconds=-10))
        return outcome

    monkeypatch.setattr(transport, "_try", then_run_out)
    with store:
        version = store.execute(c.Set(ORDERS, "k", "1", ANN))

    assert proxy.losses == []
    [step] = behind.execute(c.History(ORDERS, "k"))
    assert step.version == version


def test_a_compare_and_set_does_not_conflict_with_itself(
    store: HttpStore, behind: SqlStore, proxy: LossyProxy, losses: list[str]
) -> None:
    proxy.losses = losses

    version = store.execute(c.Set(ORDERS, "k", "1", ANN, if_version=0))

    [step] = behind.execute(c.History(ORDERS, "k"))
    assert step.version == version


def test_a_batch_is_one_version(
    store: HttpStore, behind: SqlStore, proxy: LossyProxy, losses: list[str]
) -> None:
    proxy.losses = losses

    version = store.execute(c.SetMany(ORDERS, (("a", "1"), ("b", "2")), ATTEMPT))

    for key in ("a", "b"):
        [step] = behind.execute(c.History(ORDERS, key))
        assert step.version == version


def test_a_watermark_advances_once(
    store: HttpStore, behind: SqlStore, proxy: LossyProxy, losses: list[str]
) -> None:
    proxy.losses = losses

    assert store.execute(c.Advance(ORDERS, "watermark", "17", ATTEMPT)) == "17"

    assert len(behind.execute(c.History(ORDERS, "watermark"))) == 1


def test_an_attempt_starts_once(store: HttpStore, proxy: LossyProxy, losses: list[str]) -> None:
    proxy.losses = losses

    assert store.execute(c.StartAttempt(TASK)) == 2
    assert store.execute(c.StartAttempt(TASK)) == 3


def test_an_attempt_ends_once(
    store: HttpStore, behind: SqlStore, proxy: LossyProxy, losses: list[str]
) -> None:
    store.execute(c.Set(ORDERS, "watermark", "1", ATTEMPT, on_success=True))
    proxy.losses = losses

    store.execute(c.FinishAttempt(ATTEMPT, succeeded=True))

    assert len(behind.execute(c.History(ORDERS, "watermark"))) == 1


def test_a_run_is_created_once(store: HttpStore, proxy: LossyProxy, losses: list[str]) -> None:
    proxy.losses = losses

    assert store.execute(c.CreateRun(dag_id="sales", run_id="tuesday")).run_id == "tuesday"


def test_an_event_is_emitted_once(
    store: HttpStore, behind: SqlStore, proxy: LossyProxy, losses: list[str]
) -> None:
    watch = store.execute(c.StartWatch(asset=ORDERS, watcher="files", process=FIRST, lease=MINUTE))
    proxy.losses = losses

    store.execute(
        c.Emit(watch, (c.Set(ORDERS, "cursor", "1", ANN),), EmittedEvent("orders", "orders"))
    )

    assert len(behind.execute(c.ListAssetEvents(ORDERS))) == 1
    assert len(behind.execute(c.History(ORDERS, "cursor"))) == 1


def test_a_read_is_retried(store: HttpStore, proxy: LossyProxy, losses: list[str]) -> None:
    proxy.losses = losses

    assert store.execute(c.Get(TASK, "k")) is None


def test_a_request_lost_beyond_the_retry_window_is_an_error_without_later_effects(
    served: ServedStores, behind: SqlStore, proxy: LossyProxy
) -> None:
    token = served.server.tokens.issue(UserIdentity("ann", Role.ADMIN))
    with HttpStore(proxy.url, token, retry_window=timedelta(seconds=0.3)) as store:
        proxy.losses = [ANSWER] * 20
        with pytest.raises(StoreUnavailable, match="after 0.3 s of retries"):
            store.execute(c.Set(ORDERS, "k", "1", ANN))
        proxy.losses = []

        store.execute(c.Set(ORDERS, "k", "2", ANN))

    assert [step.value for step in behind.execute(c.History(ORDERS, "k"))] == ["2", "1"]


class ServerProcess:
    """`holdfast server` on its own port, which can be killed and restarted."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        settings = {
            "HOLDFAST__STATE_STORE__ASSET_HISTORY_LIMIT": "100000",
            "HOLDFAST__API__ACCESS_LOG": "false",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "server", "--port", str(self._port)],
            cwd=self._home,
            env=os.environ | settings,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self.url in self._process.stdout.readline()

    def kill(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.mark.chaos
def test_a_killed_and_restarted_server_loses_and_duplicates_nothing(
    server: ServerProcess, tmp_path: Path, rounds: int
) -> None:
    token = open_tokens(Settings(directory=tmp_path)).issue(UserIdentity("ann", Role.ADMIN))
    stopping = Event()

    def write(key: str) -> list[int]:
        written = []
        for number in count():
            if stopping.is_set():
                break
            store.execute(c.Set(ORDERS, key, str(number), ANN))
            written.append(number)
        return written

    with (
        HttpStore(server.url, token, retry_window=timedelta(seconds=60)) as store,
        ThreadPoolExecutor(4) as threads,
    ):
        store.execute(c.DeclareAsset("orders"))
        keys = ["a", "b", "c", "d"]
        writers = [threads.submit(write, key) for key in keys]
        for _ in range(1 + min(rounds, 10)):
            sleep(0.5)
            server.kill()
            server.start()
        sleep(0.5)
        stopping.set()
        acknowledged = {key: writer.result() for key, writer in zip(keys, writers, strict=True)}
        kept = {key: store.execute(c.History(ORDERS, key)) for key in keys}

    for key in keys:
        values = [msgspec.json.decode(step.value or "") for step in reversed(kept[key])]
        assert len(values) > 10
        assert values == acknowledged[key]
