"""Store over HTTP."""

from __future__ import annotations

import asyncio
import os
import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from served import AnyIdentityStore, ServedStores
from servers import ServerDatabase, SqliteDatabase
from webserver import Answer, WebServer, answer, free_port, serving

import holdfast
from holdfast import Connection
from holdfast import commands as c
from holdfast.access.identity import TaskIdentity, UserIdentity
from holdfast.commands import Once
from holdfast.errors import (
    Forbidden,
    HoldfastError,
    InvalidInput,
    InvalidUrl,
    NoToken,
    NotSupported,
    RequestTooLarge,
    StaleAttempt,
    StoreUnavailable,
    TokenRefused,
    TooManyRequests,
    UnknownAsset,
    VersionConflict,
)
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.role import Role
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.portable.transport import Response
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import Api, Settings
from holdfast.stores.http import HttpStore
from holdfast.stores.sql.store import SqlStore
from holdfast.testing import (
    Clock,
    MakeStore,
    ObjectConformance,
    RunConformance,
    StateConformance,
)
from holdfast.testing.conformance.fixtures import StoreFixtures
from holdfast.testing.memory_store import MemoryStore

TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")
ANN = ApiWriter("ann")
A_TOKEN = "abc.DEF-ghi_123"
A_WHILE = timedelta(seconds=20)


class HttpFixtures(StoreFixtures):
    history_limit = 4
    modes = ("sync",)

    @pytest.fixture
    def make_store(self, served: ServedStores, postgres_database: ServerDatabase) -> MakeStore:
        def make(clock: Clock) -> AnyIdentityStore:
            url = postgres_database.empty()
            served.store.become(SqlStore(url, history_limit=self.history_limit, clock=clock))
            return AnyIdentityStore(served)

        return make


class TestHttpStore(HttpFixtures, StateConformance, ObjectConformance):
    pass


class TestHttpRuns(HttpFixtures, RunConformance):
    pass


@pytest.fixture
def behind(served: ServedStores, sqlite_database: SqliteDatabase) -> SqlStore:
    """Return the store behind the server, with a task and an asset."""
    store = SqlStore(sqlite_database.empty())
    served.store.become(store)
    store.execute(c.RegisterTask(TASK))
    store.execute(c.DeclareAsset("orders"))
    return store


@pytest.fixture
def store(served: ServedStores, behind: SqlStore) -> Iterator[HttpStore]:
    with served.client("ann") as store:
        yield store


@pytest.fixture
def token(served: ServedStores) -> str:
    return served.server.tokens.issue(UserIdentity("ann", Role.EDITOR))


def test_the_write_of_a_user_is_recorded_under_the_name_in_the_token(
    store: HttpStore, behind: SqlStore
) -> None:
    store.execute(c.Set(ORDERS, "k", "1", ApiWriter("somebody else")))

    [step] = behind.execute(c.History(ORDERS, "k"))
    assert step.writer == ANN


def test_wrapping_commands_are_not_supported_over_http(store: HttpStore) -> None:
    assert store.supports(c.Get)
    assert not store.supports(Once)


def test_a_token_without_permission_is_refused(served: ServedStores, behind: SqlStore) -> None:
    token = served.server.tokens.issue(UserIdentity("vic", Role.VIEWER))
    with HttpStore(served.server.url, token) as store:
        assert store.execute(c.Get(ORDERS, "k")) is None
        with pytest.raises(Forbidden, match="viewer vic may not do this\nhint: it needs"):
            store.execute(c.Set(ORDERS, "k", "1", ANN))


def test_an_expired_token_is_refused(served: ServedStores) -> None:
    identity = UserIdentity("ann", Role.ADMIN)
    token = served.server.tokens.issue(identity, timedelta(seconds=-10))
    store = HttpStore(served.server.url, token, retry_window=A_WHILE)
    with store, pytest.raises(Forbidden, match="expired\nhint: .*holdfast auth") as caught:
        store.execute(c.Now())

    assert token not in str(caught.value)


def test_a_request_with_an_expired_token_is_retried_with_a_new_one(
    served: ServedStores, behind: SqlStore
) -> None:
    ann = UserIdentity("ann", Role.EDITOR)
    tokens = served.server.tokens
    old = tokens.issue(ann, timedelta(seconds=-10))
    with HttpStore(served.server.url, old, new_token=lambda: tokens.issue(ann)) as store:
        store.execute(c.Set(ORDERS, "k", "1", ANN))

    assert behind.execute(c.Get(ORDERS, "k")) == "1"


def test_a_request_with_an_expired_token_uses_the_one_renewed_by_another_request(
    served: ServedStores, behind: SqlStore, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = served.server.tokens.issue(UserIdentity("ann", Role.EDITOR), timedelta(seconds=-10))
    with HttpStore(served.server.url, old) as store:
        transport = store._transport
        attempt = transport._try

        def beside_another(*args: Any) -> Response | OSError:
            outcome = attempt(*args)
            transport.token = token
            return outcome

        monkeypatch.setattr(transport, "_try", beside_another)
        store.execute(c.Set(ORDERS, "k", "1", ANN))

    assert behind.execute(c.Get(ORDERS, "k")) == "1"


def test_a_new_token_that_is_refused_too_is_an_error(served: ServedStores) -> None:
    identity = UserIdentity("ann", Role.ADMIN)
    issue, past = served.server.tokens.issue, timedelta(seconds=-10)
    store = HttpStore(
        served.server.url, issue(identity, past), new_token=lambda: issue(identity, past)
    )
    with store, pytest.raises(TokenRefused, match="expired"):
        store.execute(c.Now())


def test_a_malformed_token_is_refused(served: ServedStores) -> None:
    store = HttpStore(served.server.url, A_TOKEN)
    with store, pytest.raises(Forbidden, match="not a token of a"):
        store.execute(c.Now())


def test_the_token_of_an_attempt_is_renewed_while_it_is_used(
    served: ServedStores, behind: SqlStore
) -> None:
    number = behind.execute(c.StartAttempt(TASK))
    token = served.server.tokens.issue(TaskIdentity(TASK, number), timedelta(seconds=3))
    began = time.monotonic()
    with HttpStore(served.server.url, token) as store:
        while time.monotonic() < began + 4:
            store.execute(c.Set(TASK, "k", "1", TaskWriter(TASK, number)))
            time.sleep(0.1)

        behind.execute(c.StartAttempt(TASK))
        with pytest.raises(StaleAttempt):
            store.execute(c.Set(TASK, "k", "1", TaskWriter(TASK, number)))


def test_a_request_to_a_busy_server_is_retried(tmp_path: Path) -> None:
    api = Api(rate_limit=20, access_log=False)
    server = EmbeddedServer(MemoryStore(), Settings(api=api, directory=tmp_path))
    token = server.tokens.issue(UserIdentity("ann", Role.ADMIN))

    with HttpStore(server.url, token) as hasty, pytest.raises(TooManyRequests, match="rate_limit"):
        for _ in range(200):
            hasty.execute(c.Now())
    with HttpStore(server.url, token, retry_window=A_WHILE) as patient:
        began = time.monotonic()
        for _ in range(30):
            patient.execute(c.Now())

    server.close()
    assert time.monotonic() - began > 1


def test_the_error_for_a_server_that_does_not_run_names_it() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with HttpStore(url, A_TOKEN) as store, pytest.raises(StoreUnavailable) as caught:
        store.execute(c.Now())

    assert str(caught.value) == (
        f"{url} does not answer: Connection refused\n"
        "hint: check the URL, and that `holdfast server` is running there"
    )


def test_the_error_for_a_slow_server_names_it() -> None:
    with serving(answer(delay=0.5)) as server:
        store = HttpStore(server.url, A_TOKEN, timeout=timedelta(seconds=0.1))
        with store, pytest.raises(StoreUnavailable, match=f"{server.url} .* within 0.1 s"):
            store.execute(c.Now())


def ask(server: WebServer) -> None:
    with HttpStore(server.url, A_TOKEN) as store:
        store.execute(c.Now())


PAGE = b"<html><h1>Nothing here</h1></html>"


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (
            answer(404, PAGE, content_type="text/html", server="nginx"),
            InvalidUrl,
            "404 Not Found, text/html, nginx",
        ),
        (answer(200, PAGE, content_type="text/html"), InvalidUrl, "200 OK, text/html"),
        (answer(200, b'{"hello": "world"}'), InvalidUrl, "200 OK, application/json"),
        (answer(405, b'{"error": "no"}'), InvalidUrl, "405 Method Not Allowed"),
        (answer(401, PAGE, content_type="text/html"), NoToken, "401 Unauthorized"),
        (answer(403, PAGE, content_type="text/html"), Forbidden, "403 Forbidden"),
        (answer(413, PAGE, content_type="text/html"), RequestTooLarge, "413"),
        (answer(429, b""), TooManyRequests, "429 Too Many Requests"),
        (answer(500, b"oops", content_type="text/plain"), StoreUnavailable, "500 Internal"),
        (answer(502, PAGE, content_type="text/html"), StoreUnavailable, "502 Bad Gateway"),
        (answer(599, b""), StoreUnavailable, "(599, application/json)"),
        (Answer(b"SSH-2.0-OpenSSH_9.6\r\n"), StoreUnavailable, "b'SSH-2.0-OpenSSH_9.6"),
    ],
)
def test_a_server_that_is_not_holdfast_is_recognised_by_its_responses(
    reply: Answer, kind: type[HoldfastError], says: str
) -> None:
    with serving(reply) as server, pytest.raises(kind) as caught:
        ask(server)

    assert type(caught.value) is kind
    assert server.url in caught.value.message and says in caught.value.message
    assert "check the URL" in caught.value.hint


def test_a_redirect_is_not_followed() -> None:
    moved = answer(301, b"", location="https://elsewhere.example/execution/commands")
    with serving(moved) as server, pytest.raises(InvalidUrl, match="301 Moved") as caught:
        ask(server)

    assert "it redirects to https://elsewhere.example" in caught.value.hint
    assert len(server.requests) == 1


def test_an_error_of_a_newer_server_is_still_an_error() -> None:
    newer = answer(418, b'{"detail": {"reason": "teapot", "message": "I am a teapot"}}')
    with serving(newer) as server, pytest.raises(HoldfastError, match="^I am a teapot$"):
        ask(server)


def test_the_client_knows_which_commands_the_servers_backend_does_not_support() -> None:
    listed = answer(200, b'["Get", "Set"]')
    with serving(listed) as server, HttpStore(server.url, A_TOKEN) as store:
        assert store.supports(c.Get)
        assert not store.supports(c.List)

    assert [request.line for request in server.requests] == ["GET /execution/commands HTTP/1.1"]


def test_the_token_is_not_shown(store: HttpStore, token: str) -> None:
    with HttpStore(store._transport.url, token) as other:
        assert repr(other) == f"<HttpStore {store._transport.url}>"


def test_many_threads_share_a_store(store: HttpStore, behind: SqlStore) -> None:
    def write(number: int) -> int:
        return store.execute(c.Set(ORDERS, f"k{number % 8}", str(number), ANN))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(160)))

    for key in range(8):
        steps = behind.execute(c.History(ORDERS, f"k{key}"))
        assert sorted(int(step.value or "") for step in steps) == list(range(key, 160, 8))


async def test_many_tasks_share_a_store(store: HttpStore, behind: SqlStore) -> None:
    writes = (store.aexecute(c.Set(ORDERS, f"k{n}", str(n), ANN)) for n in range(50))

    await asyncio.gather(*writes)

    assert behind.execute(c.List(ORDERS)).total == 50


def test_a_forked_process_has_its_own_client(store: HttpStore, behind: SqlStore) -> None:
    store.execute(c.Set(ORDERS, "parent", "1", ANN))
    child = os.fork()
    if not child:
        store.execute(c.Set(ORDERS, "child", "1", ANN))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    store.execute(c.Set(ORDERS, "parent", "2", ANN))

    assert behind.execute(c.List(ORDERS)).total == 2
    assert [step.value for step in behind.execute(c.History(ORDERS, "parent"))] == ["2", "1"]


def test_a_pickled_store_has_clients_of_its_own(store: HttpStore, behind: SqlStore) -> None:
    store.execute(c.Set(ORDERS, "k", "1", ANN))

    with pickle.loads(pickle.dumps(store)) as other:
        other.execute(c.Set(ORDERS, "k", "2", ANN))
    store.execute(c.Set(ORDERS, "k", "3", ANN))

    assert [step.value for step in behind.execute(c.History(ORDERS, "k"))] == ["3", "2", "1"]


@pytest.fixture
def connection(served: ServedStores, behind: SqlStore, token: str) -> Iterator[Connection]:
    with holdfast.connect(served.server.url, token=token) as connection:
        yield connection


def test_a_script_connects_to_a_server(connection: Connection) -> None:
    connection.task_store("nightly", "today", "copy").set("rows", 120)
    connection.asset_store(name="customers", declare=True).set("watermark", 1)

    assert connection.task_store("nightly", "today", "copy").get("rows") == 120
    assert connection.asset_store(name="customers").entry("watermark").writer == ANN
    with pytest.raises(UnknownAsset):
        connection.asset_store(name="mistyped").get("watermark")
    with pytest.raises(VersionConflict):
        connection.asset_store(name="customers").set("watermark", 2, if_version=7)


async def test_an_async_script_connects_to_a_server(
    served: ServedStores, behind: SqlStore, token: str
) -> None:
    async with holdfast.connect(served.server.url, token=token) as connection:
        await connection.asset_store(name="orders").aset("watermark", 1)

        assert await connection.asset_store(name="orders").aget("watermark") == 1


def test_an_attempt_over_http_fences_off_the_one_before(connection: Connection) -> None:
    task = connection.task_store("nightly", "today", "load")

    with pytest.raises(StaleAttempt), task.attempt() as zombie, task.attempt() as successor:
        successor.task_store.set("cursor", 17)
        with pytest.raises(StaleAttempt):
            zombie.task_store.set("cursor", 1)

    assert task.get("cursor") == 17


def test_staged_writes_of_an_attempt_over_http_wait_for_its_success(connection: Connection) -> None:
    orders = connection.asset_store(name="orders")
    task = connection.task_store("nightly", "today", "load")

    with pytest.raises(ZeroDivisionError), task.attempt() as attempt:
        attempt.asset_store(name="orders").set("watermark", 1, on_success=True)
        _ = 1 / 0
    assert orders.get("watermark") is None

    with task.attempt() as attempt:
        attempt.asset_store(name="orders").set("watermark", 2, on_success=True)
        assert attempt.asset_store(name="orders").get("watermark") == 2
        assert orders.get("watermark") is None
    assert orders.get("watermark") == 2


def test_the_token_may_be_in_the_environment(
    served: ServedStores, behind: SqlStore, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", f"{token}\n")

    with holdfast.connect(served.server.url) as connection:
        assert connection.asset_store(name="orders").get("watermark") is None


def test_a_server_without_token_is_an_error_that_says_where_to_put_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)

    with pytest.raises(NoToken, match="hint: set HOLDFAST_TOKEN, or pass token=…"):
        holdfast.connect("http://127.0.0.1:8793")


def test_a_token_without_server_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="without the URL of a server"):
        holdfast.connect(f"sqlite:///{tmp_path}/state.db", token=A_TOKEN)


def test_a_token_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(Forbidden, match="invalid characters"):
        holdfast.connect("http://127.0.0.1:8793", token="two words")


@pytest.mark.parametrize("url", ["http://", "https://host:port", "http://ann:secret@host"])
def test_an_invalid_server_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrl, match="URL") as caught:
        holdfast.connect(url, token=A_TOKEN)

    assert "secret" not in str(caught.value)


def test_an_unsupported_command_is_an_error_over_http(
    served: ServedStores, store: HttpStore
) -> None:
    with pytest.raises(NotSupported, match="CleanUpBackend"):
        store.execute(c.CleanUpBackend())
