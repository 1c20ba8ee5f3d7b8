"""Random loads, kills, zombies and foreign commits: the table has each row of the source once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.context import ForkServerContext
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pyarrow as pa
import pytest
from appending import STEPS, append_in_process, ids, new_table
from deltalake import DeltaTable, write_deltalake
from kept import Kept
from objectserver import ObjectServer, object_server

from holdfast.spark import delta
from holdfast.spark.lake.delta import DeltaLake

FOREIGN = 1_000_000

pytestmark = pytest.mark.chaos


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        rounds = int(metafunc.config.getoption("--rounds"))
        metafunc.parametrize("seed", range(5 if rounds == 1 else 2 * rounds))


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


class World:
    """A table, the processes that append to it, and those that are paused."""

    def __init__(
        self, random: Random, forking: ForkServerContext, arguments: tuple[Any, Any, DeltaLake]
    ) -> None:
        self.random = random
        self.forking = forking
        self.arguments = arguments
        self.table = arguments[2]
        self.count = 0
        self.foreign: list[int] = []
        self.paused: list[Any] = []

    def append(self, step: str = "", number: int = 0) -> Any:
        arguments = (*self.arguments, self.count, step, number)
        process = self.forking.Process(target=append_in_process, args=arguments, daemon=True)
        process.start()
        return process

    def load(self) -> None:
        self.append().join(120)

    def kill(self) -> None:
        self.append(self.random.choice(STEPS), signal.SIGKILL).join(120)

    def kill_at_any_time(self) -> None:
        process = self.append()
        process.join(self.random.uniform(0.1, 2))
        process.kill()
        process.join()

    def pause(self) -> None:
        process = self.append(self.random.choice(STEPS), signal.SIGSTOP)
        known = psutil.Process(process.pid)
        with suppress(psutil.NoSuchProcess):
            while known.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
                process.join(0.05)
        self.paused.append(process)

    def resume(self) -> None:
        if self.paused:
            process = self.paused.pop()
            with suppress(psutil.NoSuchProcess):
                psutil.Process(process.pid).resume()
            process.join(120)

    def commit_another(self) -> None:
        if self.opened() is None:
            return
        row = FOREIGN + len(self.foreign)
        rows = pa.table({"id": [row], "part": [0], "name": ["other"]})
        options = self.table._options or None
        write_deltalake(self.table.location, rows, mode="append", storage_options=options)
        self.foreign.append(row)

    def compact(self) -> None:
        if (opened := self.opened()) is not None:
            opened.optimize.compact()

    def opened(self) -> DeltaTable | None:
        found: DeltaTable | None = self.table.open_library(None)
        return found

    def settle(self) -> None:
        """End what is unfinished, and load the rest."""
        while self.paused:
            self.resume()
        self.load()
        self.load()


ACTIONS: list[Callable[[World], None]] = [
    World.load,
    World.kill,
    World.kill_at_any_time,
    World.pause,
    World.resume,
    World.commit_another,
    World.compact,
]


def test_a_table_has_each_row_once(
    seed: int,
    forking: ForkServerContext,
    spark_server: Kept,
    server: ObjectServer,
    tmp_path: Path,
) -> None:
    random = Random(seed)
    table = new_table(tmp_path, partition_by=random.choice([None, "part"]))
    if seed % 2:
        every = server.environment
        table = delta(f"{server.make_bucket()}/facts", storage_options=every, create=True)
    world = World(random, forking, (spark_server.address, tmp_path, table))

    for _ in range(8):
        world.count += random.randint(0, 5)
        random.choice(ACTIONS)(world)
    world.count += 1
    world.settle()

    assert ids(table) == [*range(world.count), *world.foreign]
