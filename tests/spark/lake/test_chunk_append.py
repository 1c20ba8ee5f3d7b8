"""Checkpointed work whose chunks are appended to lake tables."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from loading import connection
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession

from holdfast import Connection
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import Conflict, InvalidInput, InvalidType, TableChanged
from holdfast.spark import append_chunks, delta, iceberg
from holdfast.spark.checkpoints.checkpoint import Record
from holdfast.spark.lake import append as appends
from holdfast.spark.lake.delta import DeltaLake


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Connection]:
    with connection(tmp_path) as opened:
        yield opened


@pytest.fixture
def task(store: Connection) -> TaskStore:
    return store.task_store("dag", "run", "task")


@pytest.fixture
def table(tmp_path: Path) -> DeltaLake:
    return delta(tmp_path / "table", create=True)


def chunk(spark: SparkSession) -> Callable[[int], DataFrame]:
    """Return a function that makes two rows of an item, and none of each fourth."""
    return lambda item: spark.range(10 * item, 10 * item + (0 if item % 4 == 3 else 2))


def expected(count: int) -> list[int]:
    return [10 * item + one for item in range(count) if item % 4 != 3 for one in range(2)]


def ids(table: DeltaLake) -> list[int]:
    return sorted(DeltaTable(table.location).to_pyarrow_table()["id"].to_pylist())


@pytest.mark.parametrize("spark", ["local", "connect"], indirect=True)
def test_later_attempts_append_the_remaining_chunks(
    spark: SparkSession, task: TaskStore, table: DeltaLake
) -> None:
    counts = [
        append_chunks(range(count), task, table, chunk(spark), key="items") for count in (5, 5, 9)
    ]

    assert counts == [5, 0, 4]
    assert ids(table) == expected(9)
    assert DeltaTable(table.location).version() == 7  # one of each chunk with rows


def test_chunks_that_were_not_recorded_are_found_in_the_table(
    classic_spark: SparkSession, task: TaskStore, table: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(item: int) -> DataFrame:
        if item == 6:
            raise RuntimeError("the attempt ends")
        return chunk(classic_spark)(item)

    append_chunks(range(2), task, table, chunk(classic_spark), key="items")
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(Record, "_write", lambda self: None)
        append_chunks(range(8), task, table, failing, key="items")
    made: list[int] = []

    def noted(item: int) -> DataFrame:
        made.append(item)
        return chunk(classic_spark)(item)

    # In another order, and without one that is in the table.
    append_chunks([9, 8, 7, 6, 3, 2, 1, 0], task, table, noted, key="items")
    append_chunks(range(12), task, table, noted, key="items")

    assert ids(table) == expected(12)
    assert sorted(set(made)) == [3, 6, 7, 8, 9, 10, 11]


def die_in_a_commit(place: Path, dies_before: bool) -> None:
    """Kill this process, which is the driver, at the commit of the second chunk."""
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
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
    with connection(place) as opened:
        task = opened.task_store("dag", "run", "task")
        table = delta(place / "table", create=True)
        append_chunks(range(5), task, table, chunk(spark.getOrCreate()), key="items")


@pytest.mark.full
@pytest.mark.parametrize("dies_before", [False, True])
def test_a_killed_driver_loses_and_repeats_no_chunk(
    classic_spark: SparkSession,
    tmp_path: Path,
    task: TaskStore,
    table: DeltaLake,
    in_process: Callable[..., Any],
    dies_before: bool,
) -> None:
    with pytest.raises(BrokenProcessPool):
        in_process(die_in_a_commit, tmp_path, dies_before)
    assert ids(table) == expected(1 if dies_before else 2)

    append_chunks(range(5), task, table, chunk(classic_spark), key="items")

    assert ids(table) == expected(5)


def test_an_attempt_that_was_superseded_appends_nothing_more(
    classic_spark: SparkSession, task: TaskStore, table: DeltaLake
) -> None:
    def make(item: int) -> DataFrame:
        if item == 1:
            append_chunks(range(3), task, table, chunk(classic_spark), key="items")
        return chunk(classic_spark)(item)

    with pytest.raises((Conflict, TableChanged)):
        append_chunks(range(3), task, table, make, key="items")
    append_chunks(range(3), task, table, chunk(classic_spark), key="items")

    assert ids(table) == expected(3)


def test_chunks_that_were_taken_back_are_an_error(
    classic_spark: SparkSession, task: TaskStore, table: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Record, "_write", lambda self: None)
        append_chunks(range(2), task, table, chunk(classic_spark), key="items")
    DeltaTable(table.location).restore(1)

    with pytest.raises(TableChanged, match="chunk 1 of `items/sequence` .* was taken back"):
        append_chunks(range(2), task, table, chunk(classic_spark), key="items")


def test_chunks_are_appended_to_an_iceberg_table(
    classic_spark: SparkSession, tmp_path: Path, task: TaskStore
) -> None:
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path / "warehouse")}
    catalog = load_catalog("default", type="sql", **place)
    catalog.create_namespace("web")
    table = iceberg("web.items", catalog={"type": "sql", **place}, create=True)
    for count in (2, 5):
        append_chunks(range(count), task, table, chunk(classic_spark), key="items")

    found = catalog.load_table("web.items").scan().to_arrow()["id"].to_pylist()

    assert sorted(found) == expected(5)


def test_mistakes_are_named(
    classic_spark: SparkSession, tmp_path: Path, task: TaskStore, table: DeltaLake
) -> None:
    make = chunk(classic_spark)
    append_chunks(range(1), task, table, make, key="items")
    task.set("other/sequence", 7)

    with pytest.raises(InvalidType, match="the table is a str"):
        append_chunks(range(1), task, table.location, make, key="items")  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match="the function returned a int for 1"):
        append_chunks(range(2), task, table, lambda item: item, key="items")  # type: ignore
    with pytest.raises(InvalidInput, match="an earlier attempt has appended chunks as `items`"):
        append_chunks(range(1), task, delta(tmp_path / "another"), make, key="items")
    with pytest.raises(InvalidInput, match="is not the record of appended chunks"):
        append_chunks(range(1), task, table, make, key="other")
    with pytest.raises(InvalidInput, match="with replace="):
        one = delta(table.location, replace={"id": 1})
        append_chunks(range(1), task, one, make, key="items")
    assert ids(table) == expected(1)
