"""One store shared by threads and by forked processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import commands as c
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import TaskScope
from holdfast.stores.sql import SqlStore

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")


@pytest.fixture
def store(database_url: str) -> Iterator[SqlStore]:
    with SqlStore(database_url) as store:
        store.execute(c.RegisterTask(TASK))
        yield store


def write(store: SqlStore, key: str) -> None:
    store.execute(c.Set(TASK, key, "1", ANN))


def write_async(store: SqlStore, key: str) -> None:
    async def run() -> None:
        await store.aexecute(c.Set(TASK, key, "1", ANN))
        await store.aclose()

    asyncio.run(run())


def keys(store: SqlStore) -> list[str]:
    return [found.entry.key for found in store.execute(c.List(TASK)).found]


class Child:
    """Forked process that executes one step after the other on request."""

    def __init__(self, *acts: Callable[[], None]) -> None:
        ours, theirs = os.pipe(), os.pipe()
        self._answers, self._orders = ours[0], theirs[1]
        self.pid = os.fork()
        if self.pid:
            os.close(ours[1])
            os.close(theirs[0])
            return
        status = 1
        try:
            for act in acts:
                os.read(theirs[0], 1)
                act()
                os.write(ours[1], b".")
            status = 0
        finally:
            os._exit(status)

    def go_on(self) -> None:
        """Let it do the next thing, and wait until that is done."""
        os.write(self._orders, b".")
        assert os.read(self._answers, 1) == b".", "the child has failed"

    def wait(self) -> None:
        os.close(self._answers)
        os.close(self._orders)
        assert os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]) == 0


@pytest.mark.parametrize("write", [write, write_async])
def test_a_forked_process_and_its_parent_both_write(
    store: SqlStore, write: Callable[[SqlStore, str], None]
) -> None:
    write(store, "before")
    child = Child(*[lambda number=number: write(store, f"child {number}") for number in range(3)])
    child.go_on()
    write(store, "parent")
    child.go_on()
    child.go_on()
    child.wait()
    write(store, "parent again")
    assert keys(store) == ["before", "child 0", "child 1", "child 2", "parent", "parent again"]


def test_the_writes_of_a_forked_process_outlive_its_parent(database_url: str) -> None:
    store = SqlStore(database_url)
    store.execute(c.RegisterTask(TASK))
    child = Child(lambda: write(store, "first"), lambda: write(store, "second"))
    child.go_on()
    write(store, "parent")
    store.close()
    child.go_on()
    child.wait()
    with SqlStore(database_url) as again:
        assert keys(again) == ["first", "parent", "second"]


def test_a_parent_can_write_after_its_forked_process_has_ended(database_url: str) -> None:
    with SqlStore(database_url) as store:
        store.execute(c.RegisterTask(TASK))
        child = Child(lambda: write(store, "child"), store.close)
        child.go_on()
        child.go_on()
        child.wait()
        write(store, "parent")
    with SqlStore(database_url) as again:
        assert keys(again) == ["child", "parent"]


def test_thirty_two_threads_share_a_store(store: SqlStore) -> None:
    def write_and_read(thread: int) -> None:
        for number in range(5):
            write(store, f"{thread} {number}")
            assert store.execute(c.Get(TASK, f"{thread} {number}")) == "1"

    with ThreadPoolExecutor(32) as threads:
        list(threads.map(write_and_read, range(32)))
    versions = [found.entry.version for found in store.execute(c.List(TASK)).found]
    assert sorted(versions) == list(range(1, 161))


@pytest.mark.full
def test_a_program_that_never_closes_its_store_ends(database_url: str) -> None:
    program = (
        "import asyncio, sys; from holdfast.commands import Now;"
        "from holdfast.stores.sql import SqlStore;"
        "store = SqlStore(sys.argv[1]);"
        "[asyncio.run(store.aexecute(Now())) for _ in range(50)]"
    )
    subprocess.run([sys.executable, "-c", program, database_url], check=True, timeout=30)
