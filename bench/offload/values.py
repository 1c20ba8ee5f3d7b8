"""Many values of 100 KB, written and read by async code over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial

from obstore.store import S3Store

from bench import airflow
from bench.offload import airflow_objects
from bench.offload.s3 import BUCKET, s3_server
from bench.report import crossed
from bench.rounds import ROUNDS, in_turns
from bench.size import SIZE
from bench.spark.run import Run
from holdfast import commands as c
from holdfast.accessor.task_store import TaskStore
from holdfast.model.entry import TaskWriter
from holdfast.model.scope import TaskScope
from holdfast.settings import ObjectStore
from holdfast.stores.offload.objects.backend import ObjectStoreBackend
from holdfast.stores.offload.store import OffloadStore
from holdfast.stores.sql import SqlStore

VALUES = SIZE.of(40, 1000, 1000)
SIZE = 100_000
AT_ONCE = 32

OURS, THEIRS, ALONE = "TaskStore", f"Airflow {airflow.VERSION}", "obstore alone"
TASK = TaskScope("orders", "scheduled__2026-01-01", "load")

Ask = Callable[[str, range], float]
"""Writes or reads the values with these numbers; how many seconds that took."""


def measure(run: Run) -> None:
    with ExitStack() as stack:
        stack.enter_context(s3_server(run.directory))
        runner = stack.enter_context(asyncio.Runner())
        contenders: dict[str, Ask] = {
            OURS: partial(_ask, runner, Ours(run)),
            ALONE: partial(_ask, runner, Alone()),
        }
        try:
            airflow_objects.install()
            started = airflow_objects.start(run.directory, f"s3://{BUCKET}/airflow")
            process = stack.enter_context(started)
            contenders[THEIRS] = lambda what, numbers: process.ask(
                what, numbers=list(numbers), size=SIZE, at_once=AT_ONCE
            )
            seconds = _rounds(contenders)
        except airflow.AirflowFailed as error:
            run.report.notes.append(f"Airflow {airflow.VERSION} did not take part: {error}")
            contenders.pop(THEIRS, None)
            seconds = _rounds(contenders)
    columns = {
        what: {name: f"{VALUES / spent[what]:,.0f}" for name, spent in seconds.items()}
        for what in ("write", "read")
    }
    title = f"{VALUES:,} values of 100 KB on an S3 server, {AT_ONCE} at once, values a second"
    run.report.tables.append(crossed(title, "contender", columns))
    if THEIRS in seconds:
        ours, theirs, alone = (sum(seconds[name].values()) for name in (OURS, THEIRS, ALONE))
        run.report.at_least(
            3,
            "writing and reading 100 KB values on S3, beside Airflow's object storage backend",
            theirs / ours,
            "each of our writes is also two commits in SQLite, and Airflow's none; obstore alone, "
            f"which writes objects and nothing else, is {theirs / alone:.1f} times as fast as it",
        )


def _rounds(contenders: dict[str, Ask]) -> dict[str, dict[str, float]]:
    """The seconds that each spent on writing and on reading all values."""
    warm_up = range(VALUES, VALUES + AT_ONCE)
    spent = {name: dict.fromkeys(("write", "read"), 0.0) for name in contenders}
    for ask in contenders.values():
        ask("write", warm_up)
        ask("read", warm_up)
    share = VALUES // ROUNDS
    for turn in range(ROUNDS):
        numbers = range(turn * share, (turn + 1) * share)
        for name in in_turns(list(contenders), turn):
            for what in spent[name]:
                spent[name][what] += contenders[name](what, numbers)
    return spent


def _value(number: int) -> str:
    return f"{number:06}".ljust(SIZE, "x")


def _ask(runner: asyncio.Runner, contender: Ours | Alone, what: str, numbers: range) -> float:
    operation: Callable[[int, str], Awaitable[None]] = getattr(contender, what)
    values = [(number, _value(number)) for number in numbers]

    async def all_of() -> float:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(number: int, value: str) -> None:
            async with gate:
                await operation(number, value)

        start = time.perf_counter()
        await asyncio.gather(*(one(*each) for each in values))
        return time.perf_counter() - start

    return runner.run(all_of())


class Ours:
    """What a task calls, as one attempt: each write is fenced, versioned and named in SQLite."""

    def __init__(self, run: Run) -> None:
        inner = SqlStore(f"sqlite:///{run.directory / 'store.db'}")
        inner.execute(c.RegisterTask(TASK))
        writer = TaskWriter(TASK, inner.execute(c.StartAttempt(TASK)))
        backend = ObjectStoreBackend(ObjectStore(url=f"s3://{BUCKET}/holdfast"))
        self._store = TaskStore(OffloadStore(inner, backend), TASK, writer)

    async def write(self, number: int, value: str) -> None:
        await self._store.aset(f"key_{number}", value)

    async def read(self, number: int, value: str) -> None:
        assert await self._store.aget(f"key_{number}") == value


class Alone:
    """The bare client: what the server allows at best."""

    def __init__(self) -> None:
        self._store = S3Store(BUCKET, prefix="alone", client_options={"allow_http": True})

    async def write(self, number: int, value: str) -> None:
        await self._store.put_async(f"key_{number}", value.encode(), use_multipart=False)

    async def read(self, number: int, value: str) -> None:
        found = await self._store.get_async(f"key_{number}")
        assert len(await found.bytes_async()) == len(value)
