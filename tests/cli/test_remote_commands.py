"""Every command on a server, with a token, as on the database itself."""

from __future__ import annotations

import getpass
import json
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import click
import msgspec
import pipeline
import pytest
from lossy import ANSWER, REQUEST, losing
from project import Result
from remembered import remember
from served import ServedStores, serving_stores

from holdfast import Connection, connect
from holdfast import commands as c
from holdfast.access.identity import UserIdentity
from holdfast.actions.logs import log_key, log_path, run_logs
from holdfast.cli import cli, invoke
from holdfast.connection import open_store
from holdfast.logs.files import LogWriter
from holdfast.logs.storage import LogStorage
from holdfast.model.alert import Channel
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.role import Role
from holdfast.model.run import RunState
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.service import ServiceKind
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import Logs, Settings, load
from holdfast.store import Store

ME = getpass.getuser()
ANN = ApiWriter("ann")
RUN = ("etl", "r1")
TASK = ("--dag-id", "etl", "--run-id", "r1", "--task-id", "extract")
ORDERS = ("--asset", "orders")
STATE = "state-store"
GROUPS = (
    "alerts",
    "assets",
    "auth",
    "config",
    "dags",
    "db",
    "pools",
    "runs",
    "state-store",
    "tasks",
)

READING: list[tuple[str, ...]] = [
    ("alerts", "list"),
    ("alerts", "list", "--json"),
    ("assets", "list"),
    ("assets", "list", "--json"),
    ("assets", "show", "orders"),
    ("assets", "show", "orders", "--json"),
    ("assets", "show", "orderz"),
    ("assets", "events"),
    ("assets", "events", "--asset", "orders", "--json"),
    ("assets", "loads", "orders"),
    ("assets", "loads", "orders", "--key", "watermark", "--json"),
    ("dags", "list"),
    ("dags", "list", "--json"),
    ("dags", "show", "etl"),
    ("dags", "show", "etl", "--json"),
    ("dags", "show", "elt"),
    ("dags", "errors"),
    ("dags", "errors", "--json"),
    ("pools", "list"),
    ("pools", "list", "--json"),
    ("runs", "list"),
    ("runs", "list", "--limit", "1500", "--json"),
    ("runs", "list", "--dag-id", "etl", "--state", "running"),
    ("runs", "show", *RUN),
    ("runs", "show", *RUN, "--json"),
    ("runs", "show", "etl", "r9"),
    ("runs", "backfill", "etl", "--from", "2026-01-02", "--to", "2026-01-04", "--dry-run"),
    ("runs", "prune", "--before", "0", "--dry-run"),
    ("runs", "prune", "--before", "0", "--dry-run", "--json"),
    ("runs", "prune", "--before", "soon", "--dry-run"),
    ("scheduler", "check"),
    ("scheduler", "check", "--host", "nowhere", "--json"),
    ("triggerer", "check"),
    ("tasks", "list", *RUN),
    ("tasks", "list", *RUN, "--json"),
    ("tasks", "list", "many", "r1", "--json"),
    ("tasks", "show", *RUN, "load", "--map-index", "1"),
    ("tasks", "show", *RUN, "extract", "--json"),
    ("tasks", "show", *RUN, "load"),
    ("tasks", "logs", *RUN, "extract"),
    ("tasks", "logs", *RUN, "report"),
    (STATE, "list", *TASK),
    (STATE, "list", "--limit", "0", "--json"),
    (STATE, "list", "--assets"),
    (STATE, "get", *TASK, "cursor"),
    (STATE, "get", *TASK, "cursor", "--json"),
    (STATE, "get", *TASK, "curser"),
    (STATE, "history", *ORDERS, "watermark"),
    (STATE, "history", *ORDERS, "watermark", "--json"),
    (STATE, "rewind", *ORDERS, "watermark", "--version", "1", "--dry-run"),
    (STATE, "cleanup-task-store", "--dry-run"),
    (STATE, "cleanup-task-store", "--dry-run", "--json"),
    (STATE, "cleanup-asset-store", "--dry-run"),
    (STATE, "purge", "--dry-run", "--json"),
]
WRITING: list[tuple[str, ...]] = [
    ("assets", "event", "orders", "--extra", '{"rows": 8}', "--key", "monday"),
    ("assets", "event", "orders", "--key", "monday", "--json"),
    ("dags", "pause", "etl"),
    ("dags", "unpause", "etl", "--json"),
    ("pools", "set", "warehouse", "3", "--description", "the old one"),
    ("pools", "set", "warehouse", "4", "--json"),
    ("pools", "delete", "warehouse", "--yes"),
    ("runs", "trigger", "etl", "--run-id", "r2", "--conf", '{"a": 1}'),
    ("runs", "trigger", "etl", "--run-id", "r2", "--json"),
    ("runs", "trigger", "etl", "--run-id", "r1"),
    ("runs", "backfill", "etl", "--from", "2026-01-02", "--to", "2026-01-04", "--json"),
    ("tasks", "clear", *RUN, "--failed", "--yes"),
    ("tasks", "clear", *RUN, "load", "--downstream", "--yes", "--json"),
    ("tasks", "mark", *RUN, "report", "--success"),
    ("tasks", "mark", *RUN, "load", "--map-index", "2", "--failed", "--json"),
    ("tasks", "mark", *RUN, "load", "--skipped"),
    ("runs", "stop", *RUN),
    ("runs", "stop", *RUN, "--json"),
    ("runs", "mark", *RUN, "--success", "--json"),
    (STATE, "set", *TASK, "cursor", "18", "--json"),
    (STATE, "set", *TASK, "cursor", "18", "--if-version", "9"),
    (STATE, "set", *ORDERS, "note", '"é"', "--json"),
    (STATE, "set", "--asset", "new", "--declare", "k", "1"),
    (STATE, "delete", *TASK, "cursor", "--yes"),
    (STATE, "clear", *TASK, "--yes", "--json"),
    (STATE, "rewind", *ORDERS, "watermark", "--version", "1", "--json"),
    (STATE, "purge"),
]
RULING: list[tuple[str, ...]] = [
    ("assets", "delete", "orders", "--yes"),
    ("dags", "delete", "mart", "--yes", "--json"),
    ("dags", "delete", "mart", "--dry-run"),
    ("runs", "delete", *RUN, "--yes", "--json"),
    ("runs", "prune", "--before", "0", "--yes"),
    ("runs", "prune", "--before", "0", "--dag-id", "script", "--yes", "--json"),
    (STATE, "cleanup-task-store"),
    (STATE, "cleanup-task-store", "--batch-size", "1", "--verbose", "--json"),
    (STATE, "cleanup-asset-store", "--json"),
]
"""What only an admin may do."""
NEEDING_THE_DATABASE: list[tuple[str, ...]] = [
    ("db", "check"),
    ("db", "migrate"),
    ("db", "downgrade", "base", "--yes"),
    ("run", "dag.py"),
    ("scheduler", "dags"),
    ("server",),
    ("standalone", "dags"),
    ("triggerer",),
    ("auth", "rotate-key"),
    ("auth", "task-token", *TASK),
    ("auth", "user-token", "--role", "viewer"),
    ("auth", "worker-token"),
]
WITHOUT_A_STORE = {
    *(("alerts", "test"), ("completion",), ("config", "get"), ("config", "list")),
    (STATE, "leftovers"),
}
ON_SPARK = {(STATE, name) for name in ("copy", "export", "import", "reconcile")}


def fill(store: Store) -> None:
    """Fill a store with something of every kind."""
    pipeline.half_way(store)
    store.execute(c.SaveFileError("dags/broken.py", "Traceback\nSyntaxError: invalid syntax"))
    minute = timedelta(minutes=1)
    store.execute(c.CheckConditions(channel=Channel.WEBHOOK, late_after={}, interval=minute))
    store.execute(c.CreateRun(dag_id="mart", run_id="m1"))
    day = timedelta(days=1)
    kind = ServiceKind.SCHEDULER
    store.execute(c.ReportService(process=pipeline.WORKER, kind=kind, lease=day, first=True))
    past = store.execute(c.Now()) - timedelta(days=1)
    extract, many = TaskScope("etl", "r1", "extract"), TaskScope("many", "r1", "t")
    me = ApiWriter(ME)
    store.execute(c.Set(extract, "cursor", "17", me))
    store.execute(c.Set(extract, "old", "0", me, past))
    for index in range(1200):  # more than fit into a page
        store.execute(c.RegisterTask(TaskScope("many", "r1", "t", index)))
    store.execute(c.RegisterTask(many))
    store.execute(c.RegisterTask(TaskScope("script", "r1", "t")))
    store.execute(c.SetMany(many, tuple((f"key{n:04}", str(n)) for n in range(1200)), me))
    orders = Connection(store).asset_store(name="orders")
    remember(orders, 10)
    remember(orders, 20)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database file that is filled."""
    home = tmp_path_factory.mktemp("filled")
    with open_store(load(home, {})) as store:
        fill(store)
    return home / ".holdfast" / "holdfast.db"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStores]:
    with serving_stores(tmp_path_factory.mktemp("server")) as served:
        yield served


@pytest.fixture
def behind(filled: Path, stores: ServedStores, tmp_path: Path) -> Store:
    """Return the store behind the server: a copy of the filled database."""
    copy = tmp_path / "server.db"
    shutil.copy(filled, copy)
    stores.store.become(
        open_store(load(tmp_path, {"HOLDFAST__DATABASE__URL": f"sqlite:///{copy}"}))
    )
    return stores.store


@pytest.fixture
def holdfast(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Return a function that runs a command line in this process, on the store at a URL."""

    def call(url: str, *args: str, token: str = "") -> Result:
        monkeypatch.setenv("HOLDFAST__DATABASE__URL", url)
        monkeypatch.setenv("HOLDFAST_TOKEN", token)
        return Result(invoke(args), *capsys.readouterr())

    return call


@pytest.fixture
def here(filled: Path, holdfast: Callable[..., Result], tmp_path: Path) -> Callable[..., Result]:
    """Return a function that runs a command line on another copy of the filled database."""
    copy = tmp_path / "here.db"
    shutil.copy(filled, copy)
    return partial(holdfast, f"sqlite:///{copy}")


@pytest.fixture
def remote(
    behind: Store, stores: ServedStores, holdfast: Callable[..., Result]
) -> Callable[..., Result]:
    """Return a function that runs a command line on the server, in a role."""

    def call(*args: str, role: Role = Role.ADMIN) -> Result:
        token = stores.server.tokens.issue(UserIdentity(ME, role))
        return holdfast(stores.server.url, *args, token=token)

    return call


def comparable(result: Result) -> Result:
    """Return the result without times, which differ between two calls."""
    moment = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
    length = re.compile(r"\b\d+(\.\d)?s\b|\b\d+[dhm] \d\d[hms]\b")
    out, err = (length.sub("LENGTH", moment.sub("TIME", text)) for text in result[1:])
    return Result(result.status, out, err)


@pytest.mark.parametrize("line", [*READING, *WRITING, *RULING], ids=" ".join)
def test_a_command_on_a_server_does_the_same_as_on_the_database(
    here: Callable[..., Result], remote: Callable[..., Result], line: tuple[str, ...]
) -> None:
    assert comparable(remote(*line)) == comparable(here(*line))


def test_every_command_is_tested_here() -> None:
    tested = {*READING, *WRITING, *RULING, *NEEDING_THE_DATABASE}
    named = {line[:2] if line[0] in GROUPS else line[:1] for line in tested}
    named |= {(" ".join(line[:2]),) for line in tested if line[1:2] == ("check",)} - {("db check",)}

    assert named | WITHOUT_A_STORE | ON_SPARK == set(commands(cli, ()))


@pytest.mark.full
@pytest.mark.parametrize("line", READING, ids=" ".join)
def test_a_viewer_may_read(remote: Callable[..., Result], line: tuple[str, ...]) -> None:
    assert comparable(remote(*line, role=Role.VIEWER)) == comparable(remote(*line))


@pytest.mark.full
@pytest.mark.parametrize("line", [*WRITING, *RULING], ids=" ".join)
def test_a_viewer_may_change_nothing(
    remote: Callable[..., Result], behind: Store, line: tuple[str, ...]
) -> None:
    before = contents(behind)

    result = remote(*line, role=Role.VIEWER)

    assert result.status in (1, 2)
    assert contents(behind) == before


@pytest.mark.parametrize("line", RULING, ids=" ".join)
def test_an_editor_is_told_what_only_an_admin_may_do(
    remote: Callable[..., Result], behind: Store, line: tuple[str, ...]
) -> None:
    before = contents(behind)

    result = remote(*line, role=Role.EDITOR)

    assert result.status == 1
    assert f"editor {ME} may not do this" in result.err
    assert "`holdfast auth user-token --role admin`" in result.err
    assert contents(behind) == before


def test_a_viewer_may_read_and_not_write(remote: Callable[..., Result], behind: Store) -> None:
    before = contents(behind)

    listed = remote("runs", "list", role=Role.VIEWER)
    paused = remote("dags", "pause", "etl", role=Role.VIEWER)

    assert (listed.status, paused.status) == (0, 1)
    assert contents(behind) == before


def test_an_editor_may_write(remote: Callable[..., Result]) -> None:
    done = [remote(*line, role=Role.EDITOR).status for line in WRITING]

    assert done == [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 2]


def test_a_write_is_recorded_as_that_of_the_person_in_the_token(
    holdfast: Callable[..., Result], behind: Store, stores: ServedStores
) -> None:
    token = stores.server.tokens.issue(UserIdentity("zoe", Role.EDITOR))

    holdfast(stores.server.url, STATE, "set", *ORDERS, "note", "1", token=token)

    entry = behind.execute(c.GetEntry(AssetScope(name="orders"), "note"))
    assert entry is not None and entry.writer == ApiWriter("zoe")


@pytest.mark.parametrize("line", NEEDING_THE_DATABASE, ids=" ".join)
def test_a_command_that_needs_the_database_says_so(
    remote: Callable[..., Result], project: Path, line: tuple[str, ...]
) -> None:
    (project / "dags").mkdir()
    (project / "dag.py").write_text("")

    result = remote(*line)

    assert result.status == 2
    assert "the server http://127.0.0.1:" in result.err
    assert "where the server runs" in result.err
    assert not (project / ".holdfast").exists()


@pytest.mark.parametrize(
    ("url", "token", "told"),
    [
        ("{server}", "", "the server needs a token, and none is given\nhint: set HOLDFAST_TOKEN"),
        ("{server}", "no.good.token", "the token is not accepted"),
        ("{server}", "with a space", "the token contains invalid characters"),
        ("{server}/prefix", "{viewer}", "the server has no such path"),
        (
            "http://127.0.0.1:1",
            "{viewer}",
            "http://127.0.0.1:1 does not answer: Connection refused",
        ),
        ("http://ann:secret@127.0.0.1:1", "{viewer}", "use a token instead"),
        ("http://", "{viewer}", "write http://host:port"),
        ("https://{address}", "{viewer}", "does not speak TLS"),
    ],
)
def test_a_server_that_cannot_be_used_is_one_clear_error(
    holdfast: Callable[..., Result],
    stores: ServedStores,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    token: str,
    told: str,
) -> None:
    viewer = stores.server.tokens.issue(UserIdentity(ME, Role.VIEWER))
    server = stores.server.url
    url = url.format(server=server, address=server.removeprefix("http://"))
    monkeypatch.setenv("HOLDFAST__CORE__RETRY_WINDOW", "0")

    result = holdfast(url, "runs", "list", token=token.format(viewer=viewer))

    assert (result.status, result.out) == (1, "")
    assert told in result.err
    assert len(result.err.splitlines()) == 2
    assert "secret" not in result.err


def test_a_website_is_no_server(holdfast: Callable[..., Result]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answer = threading.Thread(target=answer_like_a_website, args=(listener,))
        answer.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        result = holdfast(url, "runs", "list", token="t")
        answer.join()

    assert result.status == 1
    assert f"{url} did not respond like a Holdfast server (200 OK, text/html)" in result.err


@pytest.mark.full
def test_a_log_that_is_followed_survives_a_restart_of_the_server(
    holdfast: Callable[..., Result], behind: Store, stores: ServedStores, project: Path
) -> None:
    scope = TaskScope("etl", "r1", "report")
    worker = msgspec.structs.replace(pipeline.WORKER, host=socket.gethostname())
    number = behind.execute(c.StartAttempt(scope, worker))
    path = log_path(load().home, scope, number)
    path.parent.mkdir(parents=True)
    path.write_text("first\n")
    token = stores.server.tokens.issue(UserIdentity(ME, Role.VIEWER))
    finish = c.FinishAttempt(TaskWriter(scope, number), succeeded=True)
    end = threading.Timer(0.5, behind.execute, [finish])
    end.start()

    with losing(stores.server.url) as proxy:
        proxy.losses = [REQUEST, ANSWER] * 10
        result = holdfast(proxy.url, "tasks", "logs", *RUN, "report", "--follow", token=token)
    end.join()

    assert (result.status, result.out) == (0, "first\n")


def test_a_write_whose_response_is_lost_is_executed_once(
    holdfast: Callable[..., Result], behind: Store, stores: ServedStores
) -> None:
    token = stores.server.tokens.issue(UserIdentity(ME, Role.EDITOR))

    with losing(stores.server.url) as proxy:
        proxy.losses = [ANSWER, REQUEST] * 3
        result = holdfast(proxy.url, "runs", "trigger", "etl", "--run-id", "r2", token=token)

    assert (result.status, result.out) == (0, "r2\n")


def test_the_log_of_another_machine_is_not_looked_for_on_this_one(
    remote: Callable[..., Result],
) -> None:
    path = log_path(load().home, TaskScope("etl", "r1", "extract"), 1)
    path.parent.mkdir(parents=True)
    path.write_text("of another store with the same names\n")

    result = remote("tasks", "logs", *RUN, "extract")

    assert (result.status, result.out) == (1, "")
    assert "logs are on the machine that ran the attempt, here, under core.home" in result.err


def test_a_log_is_read_through_the_server(
    remote: Callable[..., Result], stores: ServedStores
) -> None:
    path = log_path(stores.home, TaskScope("etl", "r1", "extract"), 1)
    path.parent.mkdir(parents=True)
    path.write_text("one\ntwo ü\n")

    assert remote("tasks", "logs", *RUN, "extract", role=Role.VIEWER) == (0, "one\ntwo ü\n", "")
    assert remote("tasks", "logs", *RUN, "extract", "--tail", "1").out == "two ü\n"
    assert remote("tasks", "logs", *RUN, "extract", "-f").out == "one\ntwo ü\n"
    shutil.rmtree(stores.home / "logs")


def test_a_live_log_is_followed_through_a_server_that_loses_connections(
    holdfast: Callable[..., Result], behind: Store, stores: ServedStores
) -> None:
    scope = TaskScope("etl", "r1", "report")
    number = behind.execute(c.StartAttempt(scope, pipeline.WORKER))
    token = stores.server.tokens.issue(UserIdentity(ME, Role.VIEWER))
    expected = "".join(f"{line}\n" for line in range(20_000))
    work = threading.Thread(target=write_and_end, args=(stores.home, behind, scope, number))

    with losing(stores.server.url) as proxy:
        proxy.losses = [REQUEST, ANSWER] * 5
        work.start()
        result = holdfast(proxy.url, "tasks", "logs", *RUN, "report", "--follow", token=token)
    work.join()
    shutil.rmtree(stores.home / "logs")

    assert (result.status, result.out, result.err) == (0, expected, "")


def write_and_end(home: Path, store: Store, scope: TaskScope, attempt: int) -> None:
    """Write a log that the server has, for two seconds, and end the attempt."""
    writer = LogWriter(log_path(home, scope, attempt), 2**18)
    for first in range(0, 20_000, 500):
        writer.write("".join(f"{line}\n" for line in range(first, first + 500)).encode())
        time.sleep(0.05)
    store.execute(c.FinishAttempt(TaskWriter(scope, attempt), succeeded=True))


def test_logs_of_this_machine_stay_when_a_run_of_a_server_is_deleted(
    remote: Callable[..., Result],
) -> None:
    path = log_path(load().home, TaskScope("etl", "r1", "extract"), 1)
    path.parent.mkdir(parents=True)
    path.write_text("of another store with the same names\n")

    assert remote("runs", "delete", *RUN, "--yes").status == 0

    assert path.exists()


@pytest.mark.parametrize("deleted", [("runs", "delete", *RUN), ("dags", "delete", "etl")])
def test_the_server_deletes_the_logs_of_what_is_deleted(
    filled: Path, holdfast: Callable[..., Result], tmp_path: Path, deleted: tuple[str, ...]
) -> None:
    copy = shutil.copy(filled, tmp_path / "server.db")
    store = open_store(load(tmp_path, {"HOLDFAST__DATABASE__URL": f"sqlite:///{copy}"}))
    store.execute(c.MarkRun(dag_id="etl", run_id="r1", state=RunState.FAILED, writer=ANN))
    scope = TaskScope(*RUN, "extract")
    logs = Logs(url=f"file://{tmp_path}/storage")
    settings = Settings(directory=tmp_path / "served", logs=logs)
    log_path(settings.home, scope, 1).parent.mkdir(parents=True)
    storage, key = LogStorage(logs.url), log_key(scope, 1)
    storage.put(key, 0, b"text\n")
    server = EmbeddedServer(store, settings)
    token = server.tokens.issue(UserIdentity(ME, Role.ADMIN))

    result = holdfast(server.url, *deleted, "--yes", token=token)
    server.close()

    assert result.status == 0, result.err
    assert not storage.log(key).exists()
    assert not run_logs(settings.home, *RUN).exists()


def test_a_script_connects_to_the_configured_server(
    behind: Store, stores: ServedStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST__DATABASE__URL", stores.server.url)
    token = stores.server.tokens.issue(UserIdentity("zoe", Role.EDITOR))

    with connect(token=token) as connection:
        connection.asset_store(name="orders").set("note", 2)

    assert behind.execute(c.Get(AssetScope(name="orders"), "note")) == "2"


@pytest.mark.full
def test_entries_are_exported_imported_and_copied_through_a_server(
    remote: Callable[..., Result], behind: Store, project: Path
) -> None:
    extract = TaskScope("etl", "r1", "extract")
    other = f"sqlite:///{project}/other.db"
    with open_store(load(project, {"HOLDFAST__DATABASE__URL": other})) as target:
        exported = remote(STATE, "export", "out", *TASK, "--json", role=Role.EDITOR)
        remote(STATE, "delete", *TASK, "cursor", "--yes")
        imported = remote(STATE, "import", "out", "--yes", role=Role.EDITOR)
        copied = remote(STATE, "copy", "--to", other, *TASK, "--yes", role=Role.EDITOR)

        assert (exported.status, imported.status, copied.status) == (0, 0, 0), copied.err
        assert json.loads(exported.out)["tables"]["task_store"]["count"] == 1
        assert behind.execute(c.Get(extract, "cursor")) == "17"
        assert target.execute(c.Get(extract, "cursor")) == "17"


@pytest.mark.full
def test_storage_is_reconciled_with_the_references_of_a_server(
    remote: Callable[..., Result], behind: Store, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    monkeypatch.setenv("HOLDFAST__WORKERS__STATE_BACKEND", "holdfast.sdk.state.ObjectStoreBackend")
    monkeypatch.setenv("HOLDFAST__OBJECT_STORE__URL", f"file://{project}/objects")
    remote("runs", "list")  # sets the variables of the server
    with connect() as connection:
        connection.asset_store(name="orders").set("offloaded", "x" * 1000)

    result = remote(STATE, "reconcile", "--json", role=Role.VIEWER)

    assert result.status == 0, result.err
    assert json.loads(result.out)["named"]["objects"] == 1


def commands(group: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the path of every command that is not hidden."""
    if not isinstance(group, click.Group):
        yield path
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        inner = group.get_command(context, name)
        assert inner is not None
        if not inner.hidden:
            yield from commands(inner, (*path, name))


def contents(store: Store) -> list[Any]:
    """Return what people can change."""
    listings = (c.ListDags(), c.ListRuns(), c.ListTaskInstances(), c.ListAssets())
    filters = (c.List(c.TaskFilter()), c.List(c.AssetFilter()))
    return [store.execute(one) for one in (*listings, *filters)]


def answer_like_a_website(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi"
        )


def test_the_command_line_prints_what_the_api_answers(
    remote: Callable[..., Result], stores: ServedStores
) -> None:
    token = stores.server.tokens.issue(UserIdentity(ME, Role.VIEWER))

    def answer(path: str) -> Any:
        request = Request(f"{stores.server.url}/api/v2{path}")
        request.add_header("Authorization", f"Bearer {token}")
        with urlopen(request) as response:
            return json.load(response)

    def printed(*line: str) -> Any:
        return json.loads(remote(*line, "--json").out)

    assert printed("runs", "list", "--dag-id", "etl") == answer("/dags/etl/dagRuns")
    run = printed("runs", "show", *RUN)
    assert answer("/dags/etl/dagRuns/r1").items() <= run.items()
    tasks = "/dags/etl/dagRuns/r1/taskInstances"
    assert printed("tasks", "list", *RUN) == answer(tasks)
    assert printed("tasks", "show", *RUN, "extract") == answer(f"{tasks}/extract")
    assert printed("assets", "events") == answer("/assets/events")
    assert printed("pools", "list") == answer("/pools")
    assert printed("dags", "errors") == answer("/importErrors")
    etl = printed("dags", "list")["dags"][0]
    assert answer("/dags")["dags"][0].items() <= etl.items()
    [asset] = printed("assets", "list")["assets"]
    assert answer("/assets")["assets"][0].items() <= asset.items()
