"""Cleanup on PostgreSQL: its rate beside a bare DELETE, its memory, and what a writer feels."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median, quantiles
from typing import NamedTuple

from bench.airflow import VERSION
from bench.rounds import ROUNDS
from bench.size import SIZE
from bench.store.databases import Databases, connect
from bench.store.metastore import Airflow
from bench.store.rows import load, settle

BATCH = SIZE.of(50, 10_000, 10_000)

BARE = "bare DELETE"
WHOLE = "cleanup, unbatched"
BATCHED = f"cleanup, batches of {BATCH:,}"
AIRFLOW = f"Airflow {VERSION}, unbatched"

_IDLE_SECONDS = 1.0


class Cleaned(NamedTuple):
    """What the process that cleaned up says. Its clock is the one that all processes share."""

    start: float
    end: float
    deleted: int
    growth: int
    """Bytes of memory."""


class Delays(NamedTuple):
    """The 99th percentile of a `set`, in seconds."""

    idle: float
    cleaning: float


class ExpiredRows:
    """A database in which half of the rows have expired, copied anew for each cleanup."""

    def __init__(self, databases: Databases, expired: int) -> None:
        self._databases = databases
        self._expired = expired
        self._template = databases.make_store("postgresql", f"expired_{expired}")
        load(self._template, 2 * expired, half_expired=True)

    def rates(self, airflow: Airflow | None) -> dict[str, float]:
        """Rows a second of each contender: the median of the rounds; Airflow has one round."""
        seconds: dict[str, list[float]] = {BARE: [], WHOLE: [], BATCHED: []}
        for _ in range(ROUNDS):
            seconds[BARE].append(self._bare_delete())
            for name, batch_size in ((WHOLE, 0), (BATCHED, BATCH)):
                cleaned = self._clean(batch_size)
                seconds[name].append(cleaned.end - cleaned.start)
        rates = {name: self._expired / median(times) for name, times in seconds.items()}
        if airflow is not None:
            airflow.ask("load", rows=2 * self._expired)
            rates[AIRFLOW] = self._expired / airflow.ask("cleanup")
        return rates

    def growth(self) -> int:
        """Bytes of memory that a cleaning process grows by: batched or not, whichever is more."""
        return max(self._clean(0).growth, self._clean(BATCH).growth)

    def delays(self) -> Delays:
        """What a batched cleanup does to another process that calls `set` all the time."""
        idle: list[float] = []
        cleaning: list[float] = []
        for _ in range(ROUNDS):
            with self._copy() as url, _process("writer_side", url) as writer:
                assert writer.stdout is not None
                writer.stdout.readline()
                time.sleep(_IDLE_SECONDS)
                asked = time.monotonic()
                cleaned = _clean(url, BATCH)
                calls = json.loads(writer.communicate()[0])
            for start, seconds in calls:
                if start + seconds < asked:
                    idle.append(seconds)
                elif start + seconds > cleaned.start and start < cleaned.end:
                    cleaning.append(seconds)
        return Delays(quantiles(idle, n=100)[-1], quantiles(cleaning, n=100)[-1])

    def _bare_delete(self) -> float:
        with self._copy() as url, connect(url) as connection:
            now = time.time_ns() // 1000
            start = time.monotonic()
            connection.execute("DELETE FROM hf_task_entry WHERE expires_at <= %s", [now])
            return time.monotonic() - start

    def _clean(self, batch_size: int) -> Cleaned:
        with self._copy() as url:
            cleaned = _clean(url, batch_size)
        if cleaned.deleted != self._expired:
            raise AssertionError(f"{cleaned.deleted} rows went, not {self._expired}")
        return cleaned

    @contextmanager
    def _copy(self) -> Iterator[str]:
        with self._databases.copy(self._template) as url:
            with connect(url) as connection:
                settle(connection)
            yield url


def _clean(url: str, batch_size: int) -> Cleaned:
    with _process("cleanup_side", url, str(batch_size)) as cleaner:
        return Cleaned(**json.loads(cleaner.communicate()[0]))


@contextmanager
def _process(module: str, *args: str) -> Iterator[subprocess.Popen[str]]:
    """One of our modules in a process of its own, which ends when its input does."""
    with subprocess.Popen(
        [sys.executable, "-m", f"bench.store.{module}", *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
