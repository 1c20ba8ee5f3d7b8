"""Database restarts: no acknowledged write is lost, and clients with a retry window survive."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest
import sqlalchemy as sa
import workloads as w
from killable import KillableServer
from processes import Worker
from servers import mariadb_server, postgres_server
from survival import Survivor

from holdfast import commands as c
from holdfast.errors import StoreUnavailable, VersionConflict
from holdfast.stores.sql import SqlStore, schema
from holdfast.testing import open_client

# PyMySQL leaves the socket open when the server is unavailable.
pytestmark = [pytest.mark.chaos, pytest.mark.filterwarnings("ignore:unclosed <socket")]

PATIENT = timedelta(seconds=60)


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Collect garbage while the test's filter of warnings is active."""
    yield
    gc.collect()


@pytest.fixture(scope="module", params=[postgres_server, mariadb_server])
def server(request: pytest.FixtureRequest) -> Iterator[KillableServer]:
    with request.param() as server:
        killable = KillableServer(server)
        yield killable
        killable.kill()


@pytest.fixture
def url(server: KillableServer) -> str:
    url = server.server.new_database()
    schema.migrate(url)
    return url


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    with SqlStore(url, retry_window=PATIENT) as store:
        w.prepare(store)
        yield store


@pytest.mark.full
def test_an_outage_is_logged_when_it_begins_and_when_it_ends(
    server: KillableServer, store: SqlStore, caplog: pytest.LogCaptureFixture
) -> None:
    server.stop()
    again = threading.Timer(3.0, server.start)
    again.start()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: store.execute(c.Now()), range(4)))
    again.join()

    begun, over = (record.getMessage() for record in caplog.records)
    assert len(answers) == 4
    assert begun.startswith("the database is unavailable: ") and begun.endswith("; retrying")
    assert over.startswith("the database is available again, after ")


def test_a_killed_database_loses_no_acknowledged_write(
    server: KillableServer, url: str, store: SqlStore, kills: int
) -> None:
    survivor = Survivor(store)
    for seed in range(kills):
        draw = random.Random(seed)
        writer = Worker(w.write_without_end, url, seed, survivor.written)
        survivor.note(writer, seconds=60, limit=draw.randrange(60))
        survivor.note(writer, seconds=draw.uniform(0, 0.01))
        server.kill()
        survivor.note(writer, seconds=60)
        server.start()
        survivor.check()


class Load:
    """Threads that write until they are stopped, and the acknowledged writes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = SqlStore(url, retry_window=PATIENT)
        self.acknowledged: Counter[str] = Counter()
        self.ambiguous = 0
        self.failed: list[BaseException] = []
        self._over = threading.Event()
        work = (self.set, self.set_many, self.advance, self.set_async, self.count, self.count)
        self._threads = [threading.Thread(target=self._guarded, args=(one,)) for one in work]

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.failed.append(error)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self.store.close()

    def wait_for_progress(self) -> None:
        """Wait until each kind of write was acknowledged some more times."""
        goal = {kind: self.acknowledged[kind] + 3 for kind in ("set", "many", "mark", "async", "n")}
        deadline = time.monotonic() + 60
        while not self.failed and any(self.acknowledged[k] < goal[k] for k in goal):
            assert time.monotonic() < deadline, f"{dict(self.acknowledged)} wants to be {goal}"
            time.sleep(0.01)

    def set(self) -> None:
        while not self._over.is_set():
            self.store.execute(c.Set(w.TASK, "set", str(self.acknowledged["set"] + 1), w.ME))
            self.acknowledged["set"] += 1

    def set_many(self) -> None:
        while not self._over.is_set():
            values = tuple((key, str(self.acknowledged["many"] + 1)) for key in w.BATCH)
            self.store.execute(c.SetMany(w.SECOND, values, w.ME))
            self.acknowledged["many"] += 1

    def advance(self) -> None:
        while not self._over.is_set():
            mark = str(self.acknowledged["mark"] + 1)
            assert self.store.execute(c.Advance(w.FIRST, "mark", mark, w.ME)) == mark
            assert self.store.execute(c.Get(w.FIRST, "mark")) == mark
            self.acknowledged["mark"] += 1

    def set_async(self) -> None:
        async def write() -> None:
            store = SqlStore(self.url, retry_window=PATIENT)
            while not self._over.is_set():
                text = str(self.acknowledged["async"] + 1)
                await store.aexecute(c.Set(w.TASK, "async", text, w.ME))
                self.acknowledged["async"] += 1
            await store.aclose()

        asyncio.run(write())

    def count(self) -> None:
        while not self._over.is_set():
            entry = self.store.execute(c.GetEntry(w.FIRST, "n"))
            value, version = (int(entry.value), entry.version) if entry else (0, 0)
            try:
                self.store.execute(c.Set(w.FIRST, "n", str(value + 1), w.ME, if_version=version))
            except VersionConflict:
                continue
            except StoreUnavailable:
                self.ambiguous += 1
            else:
                self.acknowledged["n"] += 1


@pytest.mark.parametrize("end", [KillableServer.stop, KillableServer.kill])
def test_a_client_with_a_retry_window_survives_a_restart(
    server: KillableServer,
    url: str,
    store: SqlStore,
    rounds: int,
    end: Callable[[KillableServer], None],
) -> None:
    with Load(url) as load:
        for _ in range(1 + rounds // 10):
            load.wait_for_progress()
            end(server)
            time.sleep(0.2)
            server.start()
        load.wait_for_progress()

    assert load.failed == []
    assert store.execute(c.Get(w.TASK, "set")) == str(load.acknowledged["set"])
    assert store.execute(c.Get(w.TASK, "async")) == str(load.acknowledged["async"])
    assert store.execute(c.Get(w.FIRST, "mark")) == str(load.acknowledged["mark"])
    batch = {found.entry.value for found in store.execute(c.List(w.SECOND)).found}
    assert batch == {str(load.acknowledged["many"])}
    counted = int(store.execute(c.Get(w.FIRST, "n")) or 0)
    assert load.acknowledged["n"] <= counted <= load.acknowledged["n"] + load.ambiguous


@pytest.mark.full
def test_opening_a_store_waits_for_the_database_within_the_retry_window(
    server: KillableServer, url: str
) -> None:
    server.stop()
    restart = threading.Timer(0.5, server.start)
    restart.start()
    try:
        with SqlStore(url, retry_window=PATIENT) as store:
            store.execute(c.RegisterTask(w.TASK))
    finally:
        restart.join()


@pytest.mark.full
def test_a_client_without_retry_window_fails_at_once_and_can_be_used_later(
    server: KillableServer, url: str
) -> None:
    read = c.Get(w.TASK, "key")
    with closing(open_client("sync", SqlStore(url))) as sync:
        sync(c.RegisterTask(w.TASK))
        with closing(open_client("async", SqlStore(url))) as asynchronous:
            assert sync(read) is asynchronous(read) is None
            server.stop()
            began = time.monotonic()
            for ask in (sync, asynchronous):
                with pytest.raises(StoreUnavailable, match="does not answer"):
                    ask(read)
            told = time.monotonic()
            server.start()
            sync(c.Set(w.TASK, "key", "1", w.ME))
            assert asynchronous(read) == "1"
    assert told - began < 5


@pytest.mark.full
def test_stale_connections_after_a_restart_need_no_retry_window(
    server: KillableServer, url: str
) -> None:
    impatient = SqlStore(url, retry_window=timedelta(seconds=5))
    write = c.SetMany(w.TASK, (("key", "1"),), w.ME)
    engine = sa.create_engine(url)
    with closing(impatient) as store, ThreadPoolExecutor(32) as threads:
        w.prepare(store)
        with engine.connect() as obstacle:
            obstacle.exec_driver_sql("SELECT * FROM hf_task_instance FOR UPDATE")
            written = [threads.submit(store.execute, write) for _ in range(32)]
            time.sleep(0.5)
        engine.dispose()
        assert sorted(one.result() for one in written) == list(range(1, 33))
        server.stop()
        server.start()
        assert store.execute(write) == 33
