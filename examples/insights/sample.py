"""Sample state for insights.py: four weeks of a small shop's nightly pipeline.

It writes to the store like any script, with a clock of its own that makes four weeks pass at once.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from holdfast import Connection
from holdfast.stores.sql import SqlStore

DAYS = 28
TASKS = {"extract": 4, "clean": 9, "join": 21, "publish": 2}
"""The approximate duration of each task in minutes."""


class Clock:
    """A clock that is advanced by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 2, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def write_sample(url: str) -> None:
    """Fill an empty store."""
    chance = random.Random(7)  # noqa: S311  (any numbers will do, but the same each time)
    clock = Clock()
    with Connection(SqlStore(url, clock=clock)) as connection:
        for name in ("orders", "customers", "prices"):
            connection.asset_store(name=name, declare=True)
        for day in range(DAYS):
            clock.now = datetime(2026, 3, 1, 2, tzinfo=UTC) + timedelta(days=day)
            for task, minutes in TASKS.items():
                _run_task(connection, clock, day, task, minutes * chance.uniform(0.7, 1.5))


def _run_task(connection: Connection, clock: Clock, day: int, task: str, minutes: float) -> None:
    date = f"{clock.now:%Y-%m-%d}"
    with connection.task_store("shop", date, task).attempt() as attempt:
        clock.now += timedelta(minutes=minutes)
        files = {
            f"file {n}": {"path": f"{date}/{n}.parquet", "rows": 1000 + day} for n in range(day)
        }
        attempt.task_store.set_many({"rows": 1000 * (day + 1), **files})
        if task == "publish":
            orders = attempt.asset_store(name="orders")
            orders.set("watermark", date, on_success=True)
            if day < 9:  # then the customers' database was moved, and nobody noticed
                attempt.asset_store(name="customers").set("watermark", date, on_success=True)
            # Written every night, and always the same.
            attempt.asset_store(name="prices").set("watermark", "2026-02-27", on_success=True)
