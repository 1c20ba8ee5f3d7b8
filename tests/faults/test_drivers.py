"""Errors of database drivers: translated, with the store usable afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from clarity import refusal
from servers import ServerDatabase

from holdfast import commands as c
from holdfast.errors import InvalidInput, StoreFailed, StoreUnavailable
from holdfast.model.alert import AlertStatus, Channel
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.figures import Figures
from holdfast.model.run import Process, PrunableEvent, RunState, TaskState, Watch
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.service import ServiceKind
from holdfast.store import Store
from holdfast.stores.sql import SqlStore, schema
from holdfast.testing import MODES, open_client

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")
THEN = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HERE = Process("here", 1, "boot")

COMMANDS: list[c.Command[Any]] = [
    c.Get(TASK, "key"),
    c.Get(ORDERS, "key", TaskWriter(TASK, 1)),
    c.GetEntry(TASK, "key"),
    c.List(TASK),
    c.Set(TASK, "key", "1", ANN),
    c.Set(ORDERS, "key", "1", ANN, if_version=0),
    c.SetMany(ORDERS, (("key", "1"), ("other", "2")), ANN),
    c.Advance(ORDERS, "key", "1", ANN),
    c.Delete(TASK, "key", ANN),
    c.Clear(TASK, ANN, all_map_indices=True),
    c.History(ORDERS, "key"),
    c.Rewind(ORDERS, "key", c.ToVersion(1), ANN),
    c.RegisterTask(TASK),
    c.ListTasks("sales", "monday"),
    c.DeleteRun("sales", "monday"),
    c.DeclareAsset("orders", "s3://lake/orders"),
    c.DeclareDagAssets("sales", (("orders", "s3://lake/orders"),)),
    c.ListAssets(),
    c.AssetChanges(),
    c.GetAsset(ORDERS),
    c.DeleteAsset(ORDERS),
    c.StartAttempt(TASK),
    c.FinishAttempt(TaskWriter(TASK, 1), succeeded=True),
    c.CountExpired(THEN),
    c.ListExpired(THEN, 10),
    c.DeleteExpired(THEN),
    c.DeleteExpired(THEN, 10, skip_held=True),
    c.TakeExpired(THEN, 10),
    c.ListOrphans(THEN),
    c.DeleteOrphans(THEN),
    c.ForgetRequests(THEN),
    c.PlanScan("runs", 8, 10),
    c.Scan(table="runs", columns=("run_id",), limit=10),
    c.StartLoad("load", ANN),
    c.AddToLoad("load", 0, 0, (c.ScopeEntries(TASK, (("key", "1", None),)),), ANN),
    c.FinishLoad("load", (), ANN),
    c.DropLoad("load", ANN),
    c.AliasAssets("orders"),
    c.ChangeTasks("sales", "monday", HERE, (c.TaskChange("load", -1, TaskState.SKIPPED),)),
    c.ClaimRun(dag_id="sales", run_id="monday", process=HERE, lease=MINUTE),
    c.ClearTasks(dag_id="sales", run_id="monday", tasks=(("load", None),), writer=ANN),
    c.Count(c.ListAssets()),
    c.CountPurges(),
    c.CreateAssetRun("sales", "tuesday"),
    c.CreateRun(dag_id="sales", run_id="tuesday"),
    c.Emit(Watch(ORDERS, "files", 1)),
    c.FinishPurges("purger", (1,)),
    c.FinishRun("sales", "monday", HERE, RunState.FAILED),
    c.ForgetFile("sales.py"),
    c.GetActivity(),
    c.GetDag("sales"),
    c.GetResults("sales", "monday", "load"),
    c.GetRun("sales", "monday"),
    c.Guarded(c.LiveAttempt(TaskWriter(TASK, 1)), c.Get(TASK, "key")),
    c.Heartbeat(process=HERE, lease=MINUTE, runs=(("sales", "monday"),)),
    c.InterruptAttempts(dag_id="sales", run_id="monday", process=HERE, limit=1, reason="killed"),
    c.EmitAssetEvent(scope=ORDERS, writer=ANN),
    c.ListAssetEvents(ORDERS),
    c.ListAttempts(TASK),
    c.ListDags(),
    c.ListFiles(),
    c.ListRuns(),
    c.ListServices(),
    c.ListTaskInstances(),
    c.ListWatches(),
    c.MarkRun(dag_id="sales", run_id="monday", state=RunState.FAILED, writer=ANN),
    c.MarkTask(scope=TASK, state=TaskState.FAILED, writer=ANN),
    c.Once(c.RequestId("client", 1), c.Set(TASK, "key", "1", ANN)),
    c.PauseDag("sales", paused=True),
    c.DeleteDag("sales"),
    c.ListPools(),
    c.ListPrunableRuns(c.RunsToPrune(now=THEN, before=THEN), 10),
    c.PruneRuns(c.RunsToPrune(now=THEN, before=THEN), (1,)),
    c.DeletedRuns("sales", ("monday",)),
    c.ListPrunableEvents(THEN, 10),
    c.PruneEvents(THEN, (PrunableEvent(1, 1),)),
    c.SetPool(name="warehouse", slots=1),
    c.DeletePool("warehouse"),
    c.ReportWaits(HERE, (c.Waits("sales", "monday", {"load": "a pool"}),)),
    c.PutResult(TaskWriter(TASK, 1), "return_value", "1"),
    c.QueueObjects(((TASK, "key", '{"__holdfast_ref__":"x"}'),)),
    c.ReleaseObjects(TASK, (("key", '{"__holdfast_ref__":"x"}', "reservation"),), ANN),
    c.ReserveObjects(TASK, (("key", '{"__holdfast_ref__":"x"}', "reservation"),), ANN),
    c.ReleaseRun("sales", "monday", HERE),
    c.RetireDags(MINUTE),
    c.ReportService(process=HERE, kind=ServiceKind.SCHEDULER, lease=MINUTE, first=True),
    c.EndService(HERE, Figures()),
    c.SumFigures(),
    c.CheckConditions(channel=Channel.WEBHOOK, late_after={"orders": MINUTE}, interval=MINUTE),
    c.TakeAlert(channel=Channel.WEBHOOK, lease=MINUTE),
    c.FinishAlert(alert_id=1, status=AlertStatus.FIRING),
    c.WithdrawAlerts(Channel.WEBHOOK),
    c.ListAlerts(),
    c.RunEvents("sales", "monday"),
    c.SaveFile("sales.py", ()),
    c.SaveFileError("sales.py", "SyntaxError"),
    c.SeeDags(("sales",)),
    c.StartWatch(asset=ORDERS, watcher="files", process=HERE, lease=MINUTE),
    c.TakeItem(TaskWriter(TASK, 1), "0" * 64),
    c.TakePurges(10, MINUTE, "purger"),
    c.UnfinishedRuns(),
]


def test_the_list_of_commands_is_complete() -> None:
    kinds = {kind for kind in vars(c).values() if isinstance(kind, type)}
    commands = {kind for kind in kinds if issubclass(kind, c.Command)}
    bases = {c.Command, c.ScopeCommand, c.KeyCommand, c.RunCommand}
    without_tables = {c.Now, c.CleanUpBackend}
    assert {type(command) for command in COMMANDS} == commands - bases - without_tables


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES)
def test_a_command_on_dropped_tables_is_an_error(database_url: str, mode: str) -> None:
    client = open_client(mode, SqlStore(database_url))
    schema.downgrade(database_url, "base")
    try:
        for command in COMMANDS:
            refusal(StoreFailed, client, command)
    finally:
        schema.migrate(database_url)
        client.close()


WAITING = {
    "postgresql": "SELECT pid FROM pg_stat_activity "
    "WHERE wait_event_type = 'Lock' AND datname = current_database()",
    "mysql": "SELECT id FROM information_schema.processlist "
    "WHERE db = database() AND info LIKE '%hf_task_instance%' AND id <> connection_id()",
}
"""Query for the connection that waits for another."""

END = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}


class Obstacle:
    """Another client that holds the task instance's row, so that writes to it have to wait."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        self._holder = self._engine.connect()
        self._holder.exec_driver_sql("BEGIN")
        self._holder.exec_driver_sql("SELECT * FROM hf_task_instance FOR UPDATE")

    def waiting(self) -> int:
        """Return the database's id of the waiting connection, once there is one."""
        question = WAITING[self._engine.dialect.name]
        deadline = time.monotonic() + 20
        with self._engine.connect() as connection:
            while True:
                found = connection.execute(sa.text(question)).scalar()
                if found is not None:
                    return int(found)
                assert time.monotonic() < deadline, "nobody waits"
                time.sleep(0.01)

    def end_connection(self) -> None:
        """End the connection that waits, as an administrator would."""
        statement = END[self._engine.dialect.name].format(self.waiting())
        with self._engine.connect() as connection:
            connection.exec_driver_sql(statement)

    def go_away(self) -> None:
        self._holder.exec_driver_sql("ROLLBACK")

    @contextmanager
    def meanwhile(self, act: Callable[[], object]) -> Iterator[None]:
        """Run the function in another thread; if it fails, release the lock."""

        def guarded() -> None:
            try:
                act()
            except BaseException:
                self.go_away()
                raise

        with ThreadPoolExecutor(1) as threads:
            done = threads.submit(guarded)
            yield
            done.result()

    def close(self) -> None:
        self._holder.close()
        self._engine.dispose()


@pytest.fixture(params=["postgres", "mariadb"])
def server_url(request: pytest.FixtureRequest) -> str:
    database: ServerDatabase = request.getfixturevalue(f"{request.param}_database")
    return database.empty()


@pytest.fixture
def obstacle(server_url: str) -> Iterator[Obstacle]:
    with SqlStore(server_url) as store:
        store.execute(c.RegisterTask(TASK))
    obstacle = Obstacle(server_url)
    yield obstacle
    obstacle.close()


WRITE = c.SetMany(TASK, (("key", "1"),), ANN)


def assert_usable(store: Store, obstacle: Obstacle) -> None:
    """Assert that nothing was written, no lock is held, and the store's connections work."""
    obstacle.go_away()
    assert store.execute(c.Get(TASK, "key")) is None
    assert store.execute(WRITE) == 1
    with closing(open_client("async", store)) as client:
        assert client(c.Get(TASK, "key")) == "1"


@pytest.mark.parametrize("mode", MODES)
def test_a_write_on_a_lost_connection_is_an_error(
    server_url: str, obstacle: Obstacle, mode: str
) -> None:
    with closing(open_client(mode, SqlStore(server_url))) as client:
        with obstacle.meanwhile(obstacle.end_connection):
            refusal(StoreUnavailable, client, WRITE)
        assert_usable(client.store, obstacle)


@pytest.mark.parametrize("mode", MODES)
def test_a_write_on_a_lost_connection_is_retried_within_the_retry_window(
    server_url: str, obstacle: Obstacle, mode: str
) -> None:
    def cut() -> None:
        obstacle.end_connection()
        obstacle.go_away()

    store = SqlStore(server_url, retry_window=timedelta(seconds=30))
    with closing(open_client(mode, store)) as client, obstacle.meanwhile(cut):
        assert client(WRITE) == 1


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Handle SIGINT by default, because workers of a parallel test run ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupted_write_leaves_the_store_usable(server_url: str, obstacle: Obstacle) -> None:
    def interrupt() -> None:
        obstacle.waiting()
        os.kill(os.getpid(), signal.SIGINT)

    with SqlStore(server_url) as store:
        with obstacle.meanwhile(interrupt), pytest.raises(KeyboardInterrupt):
            store.execute(WRITE)
        assert_usable(store, obstacle)


async def test_a_cancelled_write_leaves_the_store_usable(
    server_url: str, obstacle: Obstacle
) -> None:
    store = SqlStore(server_url)
    writing = asyncio.create_task(store.aexecute(WRITE))
    await asyncio.to_thread(obstacle.waiting)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    obstacle.go_away()
    assert await store.aexecute(WRITE)
    assert await store.aexecute(c.Get(TASK, "key")) == "1"
    await store.aclose()


@pytest.mark.parametrize("mode", MODES)
def test_a_statement_that_times_out_is_an_error(
    server_url: str, obstacle: Obstacle, mode: str
) -> None:
    limit = {"options": "-c statement_timeout=200"}
    if sa.make_url(server_url).get_backend_name() == "mysql":
        limit = {"init_command": "SET SESSION max_statement_time = 0.2"}
    url = sa.make_url(server_url).update_query_dict(limit).render_as_string(hide_password=False)
    with closing(open_client(mode, SqlStore(url))) as client:
        refusal(StoreUnavailable, client, WRITE)
        assert_usable(client.store, obstacle)


@pytest.mark.parametrize("after", [2**31, -(2**40), 2**63 - 1])
def test_a_number_beyond_the_range_of_its_column_is_no_failure_of_the_database(
    database_url: str, after: int
) -> None:
    with SqlStore(database_url) as store:
        if database_url.startswith("postgresql"):
            with pytest.raises(InvalidInput, match="out of the range"):
                store.execute(c.GetResults("sales", "monday", "load", after=after))
        else:
            assert store.execute(c.GetResults("sales", "monday", "load", after=after)) == ()
