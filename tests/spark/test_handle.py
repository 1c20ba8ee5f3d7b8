"""Handles in plain processes: reads, writes, errors and validity."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Timer
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

import holdfast
from holdfast import NEVER_EXPIRE, Connection
from holdfast.access.identity import TaskIdentity, UserIdentity
from holdfast.commands import RegisterTask, StartAttempt, paging
from holdfast.errors import (
    Forbidden,
    InvalidInput,
    InvalidSettings,
    InvalidType,
    MissingDependency,
    NotSupported,
    StaleAttempt,
    StoreUnavailable,
    UnknownAsset,
    VersionConflict,
)
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.role import Role
from holdfast.model.scope import TaskScope
from holdfast.model.value import as_reference, decode, encode
from holdfast.portable import handle as module
from holdfast.portable.handle import TaskHandle
from holdfast.portable.json_rules import MOST_LISTED
from holdfast.portable.transport import Endpoint, shared
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import Settings, load
from holdfast.spark.handles import job_endpoint
from holdfast.testing.memory_store import MemoryStore

TASK = ("sales", "monday", "load")
INTENT = "5d0f9d0e-7d0c-4c39-9f3a-3f7f0d9b6a11"


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.chdir(tmp_path)
    with Connection(MemoryStore()) as connection:
        yield connection


@pytest.fixture
def served(connection: Connection) -> Iterator[EmbeddedServer]:
    """Yield a server for clients with a token."""
    server = EmbeddedServer(connection.store, load())
    yield server
    server.close()


def test_a_handle_lists_more_entries_than_a_page(connection: Connection) -> None:
    store = connection.task_store(*TASK)
    store.set_many({f"{number:04}": number for number in range(2 * MOST_LISTED)})
    declared = connection.asset_store(name="orders", declare=True)
    declared.set_many({f"{number:04}": number for number in range(MOST_LISTED + 1)})

    assert store.handle().keys() == store.keys()
    assert declared.handle().items() == declared.items()


def test_a_handle_lists_larger_values_than_a_page(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "LARGEST_PAGE", 50)
    store = connection.task_store(*TASK)
    store.set_many({f"{number:02}": "v" * number for number in range(20)})

    assert store.handle().items() == store.items()


def test_a_handle_of_a_task_store_reads_and_writes_that_store(connection: Connection) -> None:
    store = connection.task_store(*TASK)
    handle = store.handle()

    handle.set("text", "ä/b\u2028", retention=NEVER_EXPIRE)
    handle.set_many({"numbers": (1, 2.5, -(2**63)), "empty": {}}, retention=timedelta(days=1))
    store.set("theirs", [None, True])
    handle.delete("empty")

    assert handle.get("theirs") == [None, True]
    assert (handle.get("empty"), handle.get("empty", 7)) == (None, 7)
    assert handle.keys() == store.keys() == ["numbers", "text", "theirs"]
    assert handle.items() == store.items()
    found, known = handle.entry("numbers"), store.entry("numbers")
    assert found is not None
    assert known is not None
    assert found.value == [1, 2.5, -(2**63)]
    assert (found.version, found.updated_at, found.expires_at) == (
        known.version,
        known.updated_at,
        known.expires_at,
    )
    theirs = store.entry("theirs")
    assert theirs is not None
    assert isinstance(known.writer, ApiWriter)
    assert known.writer == theirs.writer
    never = handle.entry("text")
    assert never is not None
    assert never.expires_at is None
    assert handle.entry("missing") is None


def test_a_handle_of_an_asset_store_reads_and_writes_that_store(connection: Connection) -> None:
    store = connection.asset_store(name="orders", uri="s3://lake/orders", declare=True)
    handle = store.handle()

    handle.set("owner", "sales", if_version=0)
    handle.set_many({"a": 1, "b": 2})

    assert handle.advance("newest", 7) == 7
    assert handle.advance("newest", 3) == 7
    assert store.items() == [("a", 1), ("b", 2), ("newest", 7), ("owner", "sales")]
    with pytest.raises(VersionConflict):
        handle.set("owner", "me", if_version=0)


def test_staged_writes_of_an_attempts_handle_wait_for_its_success(connection: Connection) -> None:
    with connection.task_store(*TASK).attempt() as attempt:
        orders = attempt.asset_store(name="orders", declare=True).handle()
        orders.advance("newest", 7, on_success=True)
        orders.set("state", "loaded", on_success=True)

        staged = orders.entry("newest")
        assert staged is not None
        assert (staged.value, staged.staged) == (7, True)
        assert connection.asset_store(name="orders").keys() == []

    entry = connection.asset_store(name="orders").entry("newest")
    assert entry is not None
    assert (entry.value, entry.writer) == (7, TaskWriter(TaskScope(*TASK)))


def test_a_handle_is_valid_while_its_attempt_is_live(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST__API__TOKEN_LIFETIME", "1s")
    monkeypatch.setattr("holdfast.server.tokens.LEEWAY", 0.0)
    with connection.task_store(*TASK).attempt() as attempt:
        handle = attempt.task_store.handle()
        time.sleep(1.1)
        handle.set("part", 1)

    for use in (lambda: handle.set("part", 2), lambda: handle.get("part")):
        with pytest.raises(StaleAttempt, match="attempt 1 of task sales/monday/load may not"):
            use()
    assert connection.task_store(*TASK).get("part") == 1


def test_a_newer_attempt_invalidates_the_handles_of_the_older_one(connection: Connection) -> None:
    store = connection.task_store(*TASK)
    older = store.attempt().__enter__().task_store.handle()
    newer = store.attempt().__enter__().task_store.handle()

    newer.set("part", 2)

    with pytest.raises(StaleAttempt):
        older.set("part", 1)
    assert store.get("part") == 2


def test_a_handle_accesses_only_its_own_store(connection: Connection) -> None:
    other = connection.task_store("sales", "monday", "report").handle()
    with connection.task_store(*TASK).attempt() as attempt:
        handle = attempt.task_store.handle()

        for mine, scope in ((handle, other._scope), (other, handle._scope)):
            theirs = TaskHandle(mine._endpoint, scope, mine._writer, timedelta(1))
            with pytest.raises(Forbidden, match="may not do this"):
                theirs.get("k")


def test_an_unknown_asset_gets_no_handle(connection: Connection) -> None:
    with pytest.raises(UnknownAsset, match="orderz"):
        connection.asset_store(name="orderz").handle()


def test_the_error_for_a_missing_package_names_it(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = connection.task_store(*TASK)
    monkeypatch.setattr("holdfast.server.packages.PACKAGES", ("no_such_package",))

    with pytest.raises(MissingDependency) as without_server:
        store.handle()
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingDependency) as without_spark:
        store.handle()

    assert without_server.value.hint == 'pip install "holdfast-state[server]"'
    assert without_spark.value.hint == 'pip install "holdfast-state[spark]"'


json_values = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
HANDLE = TaskHandle(
    Endpoint("http://127.0.0.1:1", "t"),
    msgspec.to_builtins(TaskScope(*TASK)),
    {"kind": "api", "user": "me"},
    timedelta(days=30),
)


@given(json_values)
def test_a_value_is_stored_as_by_every_store(value: Any) -> None:
    text = HANDLE._text("k", value)

    assert decode(text) == decode(encode(value)) == HANDLE._value("k", text) == value


@pytest.mark.parametrize(
    "value", [{"__holdfast_ref__": "s3://b/k"}, {"__holdfast_value__": 1}, {"a": {"a": 1}}]
)
def test_a_value_that_looks_like_a_reference_is_not_one(value: Any) -> None:
    assert HANDLE._text("k", value) == encode(value)
    assert HANDLE._value("k", encode(value)) == value


def test_an_offloaded_value_is_an_error() -> None:
    with pytest.raises(NotSupported, match="`k` of task sales/monday/load is offloaded to"):
        HANDLE._value("k", as_reference("s3://bucket/key"))


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (None, InvalidInput, "None cannot be stored"),
        (float("nan"), InvalidInput, "value is nan"),
        ({"a": [float("inf")]}, InvalidInput, r"value\['a'\]\[0\] is inf"),
        (2**63, InvalidInput, "beyond 64 bits"),
        ("\ud800", InvalidInput, "lone surrogate"),
        ({1: 2}, InvalidType, "JSON keys are text"),
        ({1, 2}, InvalidType, "store sorted"),
        (b"x", InvalidType, "base64"),
        (timedelta(1), InvalidType, "total_seconds"),
    ],
)
def test_an_invalid_value_is_refused_before_it_is_sent(
    value: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        HANDLE.set("k", value)

    assert "`k` of task sales/monday/load" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "kind"),
    [(7, InvalidType), ("", InvalidInput), ("a\nb", InvalidInput), ("\ud800", InvalidInput)],
)
def test_an_invalid_key_is_refused(connection: Connection, key: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="key"):
        connection.task_store(*TASK).handle().set(key, 1)


def test_an_invalid_retention_is_refused_before_it_is_sent() -> None:
    with pytest.raises(InvalidType, match=r"timedelta\(days=7\)"):
        HANDLE.set("k", 1, retention=7)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="expire at once"):
        HANDLE.batch(retention=timedelta(0))


def test_a_handle_does_not_show_its_token(connection: Connection) -> None:
    handle = connection.task_store(*TASK).handle()

    assert repr(handle) == f"<TaskHandle of task sales/monday/load at {handle._endpoint.url}>"


def test_a_handle_connects_when_it_is_first_used(connection: Connection) -> None:
    handle = connection.task_store(*TASK).handle()

    copied = pickle.loads(pickle.dumps(handle))
    transport = shared(copied._endpoint)
    assert transport._idle == []
    copied.set("k", 1)
    handle.set("k", 2)

    assert shared(handle._endpoint) is transport
    assert len(transport._idle) == 1


def test_the_number_of_connected_endpoints_is_bounded(connection: Connection) -> None:
    first = connection.task_store(*TASK).handle()
    first.set("k", 0)
    transport = shared(first._endpoint)

    for number in range(8):
        connection.task_store("sales", "monday", f"task {number}").handle().get("k")

    assert transport._idle == []
    assert first.get("k") == 0


def test_a_batch_is_sent_together(connection: Connection) -> None:
    store = connection.task_store(*TASK)

    with store.handle().batch() as batch:
        for number in range(2500):
            batch.set(f"{number:04}", number)
        sent_before_the_end = len(store.keys())

    entries = [store.entry(key) for key in ("0000", "0999", "1000", "1999", "2000", "2499")]
    assert sent_before_the_end == 2000
    assert len(store.keys()) == 2500
    assert [entry and entry.version for entry in entries] == [1, 1, 2, 2, 3, 3]


def test_a_batch_is_sent_when_it_is_large_or_has_waited(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = connection.asset_store(name="orders", declare=True)
    monkeypatch.setattr(module, "LONGEST_WAIT", 0.05)
    monkeypatch.setattr(module, "LARGEST_TOGETHER", 5000)

    with store.handle().batch() as batch:
        batch.set("large", "x" * 5000)
        after_the_large = store.keys()
        batch.set("first", 1)
        after_the_first = store.keys()
        time.sleep(0.06)
        batch.set("second", 2)
        after_a_while = store.keys()

    assert after_the_large == after_the_first == ["large"]
    assert after_a_while == ["first", "large", "second"]


def test_the_last_value_of_a_key_in_a_batch_is_written(connection: Connection) -> None:
    store = connection.task_store(*TASK)

    with store.handle().batch() as batch:
        batch.set("part", 1)
        batch.set("part", 2)

    assert store.items() == [("part", 2)]


def test_a_batch_that_cannot_be_sent_raises_and_keeps_its_entries(connection: Connection) -> None:
    with connection.task_store(*TASK).attempt() as attempt:
        batch = attempt.task_store.handle().batch()
    batch.set("part", 1)

    for _ in range(2):
        with pytest.raises(StaleAttempt):
            batch.flush()


def test_a_block_that_fails_sends_nothing_more(connection: Connection) -> None:
    store = connection.task_store(*TASK)

    with pytest.raises(ZeroDivisionError), store.handle().batch() as batch:
        batch.set("part", 1)
        batch.set("share", 1 / 0)

    assert store.keys() == []


def test_a_handle_works_without_holdfast_installed(connection: Connection) -> None:
    store = connection.task_store(*TASK)
    handle = store.handle()

    def use() -> str:
        handle.set("part", 1)
        try:
            handle.set("part", 2, if_version=9)
        except VersionConflict as error:
            return error.code
        return ""

    program = (
        "import sys\n"
        "sys.modules.update(holdfast=None, msgspec=None)\n"
        "import pickle\n"
        "print(pickle.load(sys.stdin.buffer)())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], input=cloudpickle.dumps(use), capture_output=True
    )

    assert (ended.stdout, ended.returncode) == (b"version_conflict\n", 0), ended.stderr
    assert store.get("part") == 1


def test_handles_of_one_process_share_a_connection_in_each_copy_of_the_module(
    connection: Connection,
) -> None:
    handle = connection.task_store(*TASK).handle()

    program = (
        "import sys\n"
        "sys.modules.update(holdfast=None, msgspec=None)\n"
        "import pickle\n"
        "first, second = (pickle.load(sys.stdin.buffer)() for _ in range(2))\n"
        "print(first is second)\n"
    )
    travelled = b"".join(cloudpickle.dumps(_elsewhere(handle)) for _ in range(2))
    ended = subprocess.run([sys.executable, "-c", program], input=travelled, capture_output=True)

    assert (ended.stdout, ended.returncode) == (b"True\n", 0), ended.stderr


def _elsewhere(handle: TaskHandle) -> Any:
    """Return copies with their own code, as after pickling to another process and back."""
    travelled = "lambda handle, shared: lambda: shared(handle._endpoint)"
    return eval(travelled)(handle, shared)


@pytest.mark.full
def test_a_handle_waits_for_an_unavailable_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("HOLDFAST__API__PORT", str(port))
    monkeypatch.setenv("HOLDFAST__API__ADVERTISE_URL", f"http://127.0.0.1:{port}")
    with holdfast.connect() as connection:
        handle = connection.task_store(*TASK).handle()

    with holdfast.connect() as again:
        Timer(1.5, again.task_store(*TASK).handle).start()
        handle.set("part", 1)

        assert again.task_store(*TASK).get("part") == 1


def test_the_error_of_a_handle_whose_program_has_ended_has_a_hint(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST__CORE__RETRY_WINDOW", "0")
    handle = connection.task_store(*TASK).handle()
    connection.close()

    with pytest.raises(StoreUnavailable, match="does not answer") as caught:
        handle.get("k")

    assert "task sales/monday/load" in caught.value.message
    assert "[api] advertise_url" in caught.value.hint


@pytest.mark.parametrize("url", ["host:8793", "ftp://host", "http://host/?a=1", "http://me@host"])
def test_an_invalid_address_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(InvalidSettings, match=r"api\.advertise_url may not be") as caught:
        load(environ={"HOLDFAST__API__ADVERTISE_URL": url})

    assert "http://host:8793" in caught.value.hint


def test_a_handle_has_the_advertised_address(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST__API__PORT", "0")
    monkeypatch.setenv("HOLDFAST__API__HOST", "localhost")
    monkeypatch.setenv("HOLDFAST__API__ADVERTISE_URL", "https://data.example/holdfast/")

    handle = connection.task_store(*TASK).handle()

    assert handle._endpoint.url == "https://data.example/holdfast"


def over_http(served: EmbeddedServer, token: str) -> Connection:
    return holdfast.connect(served.url, token=token)


def test_the_handle_of_a_user_over_http_has_fewer_permissions_than_their_token(
    connection: Connection, served: EmbeddedServer
) -> None:
    connection.asset_store(name="orders", declare=True)
    token = served.tokens.issue(UserIdentity("ed", Role.EDITOR))
    with over_http(served, token) as remote:
        task, asset = remote.task_store(*TASK).handle(), remote.asset_store(name="orders").handle()
        with remote.task_store(*TASK).attempt() as attempt:
            fenced = attempt.task_store.handle()
            fenced.set("part", 1)
        task.set("part", 2)
        asset.advance("newest", 3)

    assert token not in (task._endpoint.token, asset._endpoint.token, fenced._endpoint.token)
    assert connection.task_store(*TASK).get("part") == 2
    newest = connection.asset_store(name="orders").entry("newest")
    assert newest is not None
    assert newest.writer == ApiWriter("ed")
    with pytest.raises(StaleAttempt):
        fenced.get("part")


def test_a_viewer_gets_no_handle(connection: Connection, served: EmbeddedServer) -> None:
    connection.task_store(*TASK).set("part", 1)
    token = served.tokens.issue(UserIdentity("vic", Role.VIEWER))

    with over_http(served, token) as remote, pytest.raises(Forbidden):
        remote.task_store(*TASK).handle()


def test_a_custom_worker_gives_stores_to_its_attempts(
    connection: Connection, served: EmbeddedServer
) -> None:
    connection.asset_store(name="orders", declare=True)
    scope = TaskScope(*TASK)
    connection.store.execute(RegisterTask(scope))
    number = connection.store.execute(StartAttempt(scope))
    token = served.tokens.issue(TaskIdentity(scope, number, (("orders", "orders"),)))

    with over_http(served, token) as worker:
        worker.asset_store(name="orders").handle().set("newest", 1)

    newest = connection.asset_store(name="orders").entry("newest")
    assert newest is not None
    assert newest.writer == TaskWriter(scope)


@pytest.mark.parametrize("remote", [False, True])
def test_a_job_has_its_tasks_stores_while_its_intent_is_current(
    connection: Connection, served: EmbeddedServer, remote: bool
) -> None:
    token = served.tokens.issue(UserIdentity("ed", Role.EDITOR))
    with over_http(served, token) as through, connection.task_store(*TASK).attempt() as attempt:
        store = attempt.task_store
        asked = through.task_store(*TASK) if remote else store
        with pytest.raises(StaleAttempt):
            job_endpoint(asked, "job.intent", INTENT)
        store.set("job.intent", INTENT)
        endpoint = job_endpoint(asked, "job.intent", INTENT)
        job = TaskHandle(
            endpoint, msgspec.to_builtins(TaskScope(*TASK)), {"kind": "watcher"}, timedelta(1)
        )
        job.set("driver", "app-1")
        store.set("job.intent", str(uuid4()))
        with pytest.raises(StaleAttempt):
            job.set("driver", "app-2")

    assert connection.task_store(*TASK).get("driver") == "app-1"


def test_settings_without_an_address_stay_on_loopback(connection: Connection) -> None:
    server = EmbeddedServer(connection.store, Settings(directory=Path("elsewhere")))

    assert server.url.startswith("http://127.0.0.1:")
    server.close()
