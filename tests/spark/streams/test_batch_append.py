"""Streaming queries whose batches are appended to lake tables."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from events import Events, database
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

import holdfast
from holdfast import Connection
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import TableChanged
from holdfast.spark import delta, follow, iceberg
from holdfast.spark.lake import append as appends
from holdfast.spark.lake.table import LakeTable


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with holdfast.connect(database(tmp_path)) as connection:
        yield connection


@pytest.fixture
def task_store(connection: Connection) -> TaskStore:
    return connection.task_store(*"drt")


def events_of(spark: SparkSession, place: Path, connection: Connection) -> Events:
    return Events(spark, place, connection.asset_store(name="events", declare=True))


def numbers_in(place: Path) -> list[int]:
    return sorted(DeltaTable(place / "table").to_pyarrow_table()["number"].to_pylist())


@pytest.mark.parametrize("spark", ["local", "connect"], indirect=True)
def test_each_batch_is_appended_once(
    spark: SparkSession, tmp_path: Path, connection: Connection, task_store: TaskStore
) -> None:
    events = events_of(spark, tmp_path, connection)
    table = delta(tmp_path / "table", create=True)
    events.land(10, 11)
    follow(events.start(table), task_store)
    first = events.assets.history("stream")[-1].version
    # As if Spark had been killed after the append of the last batch, and before its record.
    events.assets.rewind("stream", version=first)
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint/commits" / name).unlink()
    events.land(12)
    follow(events.start(table), task_store)

    assert numbers_in(tmp_path) == [10, 11, 12]
    assert DeltaTable(tmp_path / "table").version() == 3
    assert events.assets.get("stream")["batch"] == 2


def die_in_a_commit(place: Path, dies_before: bool) -> None:
    """Kill this process, which is the driver, at the commit of the second batch."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    commit, seen = appends._commit, []

    def commit_and_die(*arguments: Any) -> Any:
        seen.append(arguments)
        if len(seen) == 2 and dies_before:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = commit(*arguments)
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    appends._commit = commit_and_die
    with holdfast.connect(database(place)) as connection:
        events = events_of(builder.getOrCreate(), place, connection)
        events.start(delta(place / "table", create=True)).awaitTermination()


@pytest.mark.full
@pytest.mark.parametrize("dies_before", [False, True])
def test_a_killed_driver_loses_and_repeats_no_batch(
    classic_spark: SparkSession,
    tmp_path: Path,
    connection: Connection,
    task_store: TaskStore,
    in_process: Callable[..., Any],
    dies_before: bool,
) -> None:
    events = events_of(classic_spark, tmp_path, connection)
    events.land(10, 11, 12)
    with pytest.raises(BrokenProcessPool):
        in_process(die_in_a_commit, tmp_path, dies_before)
    assert numbers_in(tmp_path) == ([10] if dies_before else [10, 11])

    follow(events.start(delta(tmp_path / "table")), task_store)

    assert numbers_in(tmp_path) == [10, 11, 12]


def test_a_checkpoint_behind_the_table_is_an_error(
    classic_spark: SparkSession, tmp_path: Path, connection: Connection, task_store: TaskStore
) -> None:
    events = events_of(classic_spark, tmp_path, connection)
    table = delta(tmp_path / "table", create=True)
    events.land(10)
    follow(events.start(table), task_store)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "older")
    events.land(11, 12)
    follow(events.start(table), task_store)
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "older").rename(tmp_path / "checkpoint")
    events.assets.rewind("stream", version=events.assets.history("stream")[-1].version)

    with pytest.raises(TableChanged, match="which the state does not know as succeeded"):
        follow(events.start(table), task_store)

    assert numbers_in(tmp_path) == [10, 11, 12]


def test_batches_are_appended_to_an_iceberg_table(
    classic_spark: SparkSession, tmp_path: Path, connection: Connection, task_store: TaskStore
) -> None:
    events = events_of(classic_spark, tmp_path, connection)
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path / "warehouse")}
    catalog = load_catalog("default", type="sql", **place)
    catalog.create_namespace("web")
    table: LakeTable = iceberg("web.events", catalog={"type": "sql", **place}, create=True)
    events.land(10, 11)
    follow(events.start(table), task_store)

    found = catalog.load_table("web.events")

    assert sorted(found.scan().to_arrow()["number"].to_pylist()) == [10, 11]
    assert len(found.snapshots()) == 2
