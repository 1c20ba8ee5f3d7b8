"""`set_many` of a thousand entries, beside as many single sets, and beside the driver alone."""

from __future__ import annotations

from bench.rounds import Contender, rates, timed
from bench.store.databases import Databases
from bench.store.driver import Driver, Sent, listening
from bench.store.single import begin_attempt
from bench.workload import KEYS, SCOPE, VALUES
from holdfast.accessor.task_store import TaskStore

SIZE = 1000

SET_MANY = f"TaskStore.set_many of {SIZE:,}"
SINGLE = "TaskStore.set, one by one"
DRIVER = "driver: statements of set_many"

_BATCH = {f"{KEYS[n % 100]}_{n}": VALUES[n % 100] for n in range(SIZE)}


def measure(databases: Databases, kind: str) -> dict[str, float]:
    """Entries a second of each contender."""
    store, writer = begin_attempt(databases.make_store(kind, "batches"))
    task_store = TaskStore(store, SCOPE, writer)
    tapes = record(url := databases.make_store(kind, "driver_batches"))
    driver = Driver(url)
    return rates(
        {
            SET_MANY: Contender(timed(lambda n: task_store.set_many(_BATCH)), 1, SIZE),
            SINGLE: Contender(timed(lambda n: task_store.set(KEYS[n % 100], VALUES[n % 100])), 25),
            DRIVER: Contender(timed(lambda n: driver.replay(tapes[n % 10])), 1, SIZE),
        }
    )


def record(url: str) -> list[list[Sent]]:
    """What is sent for ten batches, one after the other."""
    tapes = []
    with listening() as tape:
        store, writer = begin_attempt(url)
        for _ in range(10):
            tape.clear()
            TaskStore(store, SCOPE, writer).set_many(_BATCH)
            tapes.append(list(tape))
        store.close()
    return tapes
