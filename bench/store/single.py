"""One `set` or `get` at a time: through the store, through the driver alone, through Airflow."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from bench.airflow import VERSION
from bench.rounds import Contender, rates, timed
from bench.store.databases import Databases
from bench.store.driver import Driver, Sent, listening
from bench.store.metastore import Airflow
from bench.workload import KEYS, SCOPE, TEXTS, VALUES, expiry
from holdfast.accessor.task_store import TaskStore
from holdfast.commands import Get, RegisterTask, Set, StartAttempt
from holdfast.model.entry import TaskWriter
from holdfast.stores.sql import SqlStore

TASK_STORE = "TaskStore"
EXECUTE = "SqlStore.execute"
DRIVER = "driver: same statements"
PLAIN = "driver: one plain statement"
AIRFLOW = f"Airflow {VERSION}"

Operations: TypeAlias = dict[str, Callable[[int], object]]
"""`set` and `get` of the n-th key."""

_TURNS = {
    "postgresql": {"set": 50, "get": 125},
    "sqlite": {"set": 50, "get": 500},
}
_AIRFLOW_TURN = 10

_UPSERT = """
    INSERT INTO hf_task_entry (ti_id, key, value, version, updated_at, expires_at)
    VALUES (:owner, :key, :value, 1, :now, :expires_at)
    ON CONFLICT (ti_id, key) DO UPDATE SET value = excluded.value,
        version = hf_task_entry.version + 1, updated_at = excluded.updated_at,
        expires_at = excluded.expires_at
"""
_SELECT = "SELECT value FROM hf_task_entry WHERE ti_id = :owner AND key = :key"


def measure(
    databases: Databases, kind: str, airflow: Airflow | None
) -> dict[str, dict[str, float]]:
    """Operations a second, by operation and contender. Each has a database of its own."""
    ours = {
        TASK_STORE: through_task_store(databases.make_store(kind, "task_store")),
        EXECUTE: through_execute(databases.make_store(kind, "execute")),
        DRIVER: same_statements(databases.make_store(kind, "driver")),
        PLAIN: plain_statements(databases.make_store(kind, "plain"), kind),
    }
    result = {}
    for what, turn in _TURNS[kind].items():
        contenders = {
            name: Contender(timed(operations[what]), turn) for name, operations in ours.items()
        }
        if airflow is not None:
            contenders[AIRFLOW] = Contender(airflow.work(what), _AIRFLOW_TURN)
        result[what] = rates(contenders)
    return result


def begin_attempt(url: str) -> tuple[SqlStore, TaskWriter]:
    """A store, and the writer that its task instance's first attempt is: its writes are fenced."""
    store = SqlStore(url)
    store.execute(RegisterTask(SCOPE))
    return store, TaskWriter(SCOPE, store.execute(StartAttempt(SCOPE)))


def through_task_store(url: str) -> Operations:
    store, writer = begin_attempt(url)
    task_store = TaskStore(store, SCOPE, writer)
    return {
        "set": lambda n: task_store.set(KEYS[n % 100], VALUES[n % 100]),
        "get": lambda n: task_store.get(KEYS[n % 100]),
    }


def through_execute(url: str) -> Operations:
    store, writer = begin_attempt(url)
    return {
        "set": lambda n: store.execute(Set(SCOPE, KEYS[n % 100], TEXTS[n % 100], writer, expiry())),
        "get": lambda n: store.execute(Get(SCOPE, KEYS[n % 100], writer)),
    }


def same_statements(url: str) -> Operations:
    sets: list[list[Sent]] = []
    gets: list[list[Sent]] = []
    with listening() as tape:
        store, writer = begin_attempt(url)
        # An index has more to do when a key's expiry moves on, as it does in every real write.
        for key, text in list(zip(KEYS, TEXTS, strict=True)) * 10:
            tape.clear()
            store.execute(Set(SCOPE, key, text, writer, expiry()))
            sets.append(list(tape))
            tape.clear()
            store.execute(Get(SCOPE, key, writer))
            gets.append(list(tape))
        store.close()
    driver = Driver(url)
    return {
        "set": lambda n: driver.replay(sets[n % 1000]),
        "get": lambda n: driver.replay(gets[n % 1000]),
    }


def plain_statements(url: str, kind: str) -> Operations:
    """Without versions that never repeat, fencing, or expiry on reading."""
    store, _ = begin_attempt(url)
    store.close()
    driver = Driver(url)
    owner = str(SCOPE.ti_id)
    upsert, select = (
        re.sub(r":(\w+)", r"%(\1)s", text) if kind == "postgresql" else text
        for text in (_UPSERT, _SELECT)
    )

    def set_(number: int) -> None:
        now = time.time_ns() // 1000
        entry: dict[str, Any] = {"owner": owner, "key": KEYS[number % 100]}
        entry |= {"value": TEXTS[number % 100], "now": now, "expires_at": now + 30 * 86400_000_000}
        driver.replay([Sent((upsert, entry))])

    def get(number: int) -> None:
        driver.replay([Sent((select, {"owner": owner, "key": KEYS[number % 100]}))])

    return {"set": set_, "get": get}
