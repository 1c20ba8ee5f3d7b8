"""Incremental loads with random rows, ways of writing and crashes: together they equal one full
load."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow.parquet
import pytest
import shapes
from forks import forks
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from shapes import COLUMNS, NAMES, write_in_shape
from sparks import connect_address, session_on

import holdfast
from holdfast.model.entry import TaskWriter
from holdfast.spark.loads.incremental import incremental
from holdfast.spark.session.address import SparkAddress
from holdfast.spark.session.session import task_session

pytestmark = pytest.mark.chaos

LAG = timedelta(minutes=5)
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
FUTURE = datetime(2206, 1, 1, tzinfo=UTC)
CRASHES = ("none", "none", "before the write", "after the write", "kill")
KINDS = ("local", "connect", "cluster", "connect")
RULES: dict[str, dict[str, Any]] = {
    "key": {"lag": LAG, "primary_key": "id", "on_null": "skip"},
    "key in portions": {"lag": LAG, "primary_key": "id", "on_null": "skip", "max_rows": 3},
    "after the watermark": {"on_null": "skip"},
    "in portions": {"on_null": "skip", "max_rows": 2},
}


class Crash(Exception):
    pass


class Place(NamedTuple):
    """Directories of a scenario."""

    directory: str
    asset: str

    @property
    def source(self) -> str:
        return f"{self.directory}/source"

    @property
    def target(self) -> str:
        return f"{self.directory}/target"

    def connection(self) -> holdfast.Connection:
        return holdfast.connect(f"sqlite:///{self.directory}/state.db")


class Attempt(NamedTuple):
    """Parameters of one attempt of a load."""

    run: int
    shape: str
    crash: str
    rules: str
    live: bool
    """Whether the source is a DataFrame that may change, and not files."""


def rows_that_come(random: Random, source: list[Any], rules: str) -> list[Any]:
    """Return new rows, late ones within the lag, duplicates, and some in the future or without a
    time."""
    highest = max((at for _, at in source if at and at < FUTURE), default=FIRST)
    steps = [random.randint(-5, 3) for _ in range(random.randint(0, 6))]
    came: list[Any] = [(random.randint(0, 5), highest + timedelta(minutes=step)) for step in steps]
    if "key" not in rules:  # then only rows after the watermark are new, duplicates as well
        came = [
            (len(source) + number, highest + timedelta(minutes=step))
            for number, step in enumerate(steps)
            if step > 0
        ]
    if "key" in rules and source:
        recent = [row for row in source if row[1] and highest - LAG <= row[1] < FUTURE]
        came += random.sample(recent, min(len(recent), random.randint(0, 2)))
    if random.random() < 0.3:
        came.append((9, FUTURE))
    if random.random() < 0.3:
        came.append((8, None))
    return came


def load_once(spark: SparkSession, place: Place, attempt: Attempt) -> int | None:
    """Run one attempt; return how many rows it had."""
    with place.connection() as store:
        task = store.task_store(place.asset, str(attempt.run), "load")
        with task.attempt() as begun:
            return load_in(spark, place, attempt, begun.asset_store(name=place.asset))


def load_in(spark: SparkSession, place: Place, attempt: Attempt, asset: Any) -> int | None:
    df = spark.read.schema(COLUMNS).parquet(place.source)
    if attempt.live:
        df = spark.createDataFrame(df.collect(), COLUMNS)
    load = incremental(df, asset, cursor="at", **RULES[attempt.rules])
    if attempt.crash == "before the write":
        raise Crash
    write_in_shape(attempt.shape, spark, load, place.target, f"{place.directory}/spare")
    if attempt.crash == "after the write":
        raise Crash
    return load.rows


def load_until_killed(address: SparkAddress | None, place: Place, attempt: Attempt) -> None:
    """Run an attempt in its own process, with a session that ends the work of killed ones."""
    cloudpickle.register_pickle_by_value(shapes)
    if address is None:
        with own_spark(place) as spark:
            load_once(spark, place, attempt)
        return
    with place.connection() as store:
        task = store.task_store(place.asset, str(attempt.run), "load")
        with task.attempt() as begun:
            writer = TaskWriter(task.binding.scope, begun.number)
            with task_session(address, begun.task_store, writer, FIRST) as session:
                spark: Any = session
                load_in(spark, place, attempt, begun.asset_store(name=place.asset))


@contextmanager
def own_spark(place: Place) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.warehouse.dir", f"{place.directory}/warehouse").getOrCreate()
    yield spark
    spark.stop()


def kill_an_attempt(
    random: Random, address: SparkAddress | None, place: Place, attempt: Attempt
) -> None:
    process = forks().Process(target=load_until_killed, args=(address, place, attempt))
    process.start()
    process.join(random.uniform(0.5, 4) if address else random.uniform(6, 14))
    process.kill()  # unless it has ended: its pid may be another's by now
    process.join()


def written(place: Place) -> list[tuple[int, datetime]]:
    """Return the rows in the directories of loads, read without Spark."""
    found = []
    for directory in sorted(Path(place.target).glob("load=*")):
        for row in pyarrow.parquet.read_table(directory).select(["id", "at"]).to_pylist():
            found.append((row["id"], row["at"].replace(tzinfo=UTC)))
    return sorted(found)


@pytest.fixture(scope="module")
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    cloudpickle.register_pickle_by_value(shapes)
    with session_on(request.param, request, tmp_path_factory) as session:
        yield session
    cloudpickle.unregister_pickle_by_value(shapes)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        rounds = int(metafunc.config.getoption("--rounds"))
        seeds = range(10 if rounds == 1 else 200)
        drawn = sorted(((KINDS[seed % len(KINDS)], seed) for seed in seeds), key=str)
        metafunc.parametrize(("spark", "seed"), drawn, indirect=["spark"], scope="module")


def test_incremental_loads_together_equal_one_full_load(
    spark: SparkSession,
    seed: int,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    random, kind = Random(seed), KINDS[seed % len(KINDS)]
    place = Place(str(tmp_path), f"events-{seed}-{uuid4().hex[:8]}")
    address = None if kind == "local" else connect_address(kind, tmp_path_factory)
    rules = random.choice([*RULES])
    source: list[Any] = []
    with place.connection() as store:
        store.asset_store(name=place.asset, declare=True)

    kills, run = 0, 0
    for number in range(random.randint(2, 4)):
        source += rows_that_come(random, source, rules)
        spark.createDataFrame(source, COLUMNS).write.mode("overwrite").parquet(place.source)
        crash = random.choice(CRASHES)
        if crash == "kill" and kind == "local" and kills:
            crash = "after the write"
        attempt = Attempt(run, random.choice(NAMES), crash, rules, random.random() < 0.3)
        if crash == "kill":
            kills += 1
            kill_an_attempt(random, address, place, attempt)
            if address is not None and random.random() < 0.7:
                finish(address, place, attempt._replace(crash="none"))
        else:
            with suppress(Crash):
                load_once(spark, place, attempt)
        run += number % 2

    settle(spark, address, place, rules, run, kills)

    expected = {(id_, at) for id_, at in source if at and at < FUTURE}
    assert written(place) == sorted(expected)


def finish(address: SparkAddress, place: Place, attempt: Attempt) -> None:
    process = forks().Process(target=load_until_killed, args=(address, place, attempt))
    process.start()
    process.join(120)
    assert process.exitcode == 0


def settle(
    spark: SparkSession,
    address: SparkAddress | None,
    place: Place,
    rules: str,
    run: int,
    kills: int,
) -> None:
    """Load until nothing is left. The first attempt ends the running work of killed ones."""
    if kills and address is not None:
        finish(address, place, Attempt(run, "plain", "none", rules, live=False))
    deadline = time.monotonic() + 120
    while load_once(spark, place, Attempt(run + 1, "plain", "none", rules, live=False)) != 0:
        assert time.monotonic() < deadline, "the loads do not come to an end"
        run += 1
