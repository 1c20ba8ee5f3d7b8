"""Handles inside the functions that Spark calls on its executors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.errors import PythonException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import Connection
from holdfast.accessor.asset_store import AssetStore
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import KINDS, HoldfastError, InvalidInput, StaleAttempt, VersionConflict
from holdfast.model.entry import TaskWriter
from holdfast.model.scope import TaskScope

TASK = ("sales", "monday", "load")


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.chdir(tmp_path)
    with holdfast.connect() as connection:
        yield connection


@pytest.fixture
def task_store(connection: Connection) -> Iterator[TaskStore]:
    with connection.task_store(*TASK).attempt() as attempt:
        yield attempt.task_store


@pytest.fixture
def asset_store(connection: Connection) -> AssetStore:
    return connection.asset_store(name="orders", declare=True)


@pytest.mark.full
def test_every_kind_of_function_can_use_the_stores(
    spark: SparkSession, task_store: TaskStore, asset_store: AssetStore
) -> None:
    task_store.set("offset", 1000)
    own, orders = task_store.handle(), asset_store.handle()

    def count(rows: Iterator[Row]) -> None:
        ids = [row.id for row in rows]
        own.set(f"foreachPartition {ids[0]}", len(ids))
        orders.advance("newest", ids[-1])

    def shift(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        offset = own.get("offset")
        for frame in frames:
            yield frame.assign(id=frame["id"] + offset)

    def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with own.batch() as batch:
            for part in batches:
                for number in part.column("id").to_pylist():
                    batch.set(f"kept {number:03}", {"number": number, "name": "ä"})
                yield part

    moved = F.udf(lambda number: number + own.get("offset"), "long")
    numbers = spark.range(0, 100, numPartitions=4)
    numbers.foreachPartition(count)
    shifted = numbers.mapInPandas(shift, "id long").agg(F.sum("id")).first()
    kept = numbers.mapInArrow(keep, "id long").count()
    moved_rows = spark.range(2).select(moved("id").alias("id")).collect()

    assert [task_store.get(f"foreachPartition {n}") for n in (0, 25, 50, 75)] == [25] * 4
    assert asset_store.get("newest") == 99
    assert shifted == (4950 + 100 * 1000,)
    assert kept == 100
    assert task_store.get("kept 042") == {"number": 42, "name": "ä"}
    assert len(task_store.keys()) == 105
    assert [row.id for row in moved_rows] == [1000, 1001]
    entry = task_store.entry("kept 042")
    assert entry is not None
    assert entry.writer == TaskWriter(TaskScope(*TASK))


def test_the_tasks_of_a_python_worker_share_one_connection(
    spark: SparkSession, task_store: TaskStore
) -> None:
    handle = task_store.handle()

    def use(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import sys

        for frame in frames:
            handle.get("k")
            kept = sys.modules["_holdfast_transports"].transports
            mine = [kept[key] for key in kept if key[1] == handle._endpoint]
            lanes = [lane for transport in mine for lane in transport._idle]
            yield frame.assign(worker=os.getpid(), connections=len(lanes), last=lanes[0].client)

    found = (
        spark.range(0, 8, numPartitions=8)
        .mapInPandas(use, "id long, worker long, connections long, last string")
        .collect()
    )

    assert {row.connections for row in found} == {1}
    assert len({row.last for row in found}) == len({row.worker for row in found}) < 8


def test_a_retried_partition_leaves_the_right_state(
    spark: SparkSession, task_store: TaskStore, asset_store: AssetStore
) -> None:
    own, orders = task_store.handle(), asset_store.handle()

    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with own.batch() as batch:
            for part in batches:
                ids = part.column("id").to_pylist()
                for number in ids:
                    batch.set(f"{number}", number * 2)
                batch.flush()
                orders.advance("newest", ids[-1])
                if task().attemptNumber() == 0:
                    raise RuntimeError("the first try fails")
                yield part

    assert spark.range(0, 10, numPartitions=2).mapInArrow(load, "id long").count() == 10
    assert task_store.items() == [(str(number), number * 2) for number in range(10)]
    assert asset_store.get("newest") == 9


def test_an_error_of_a_handle_is_shown_where_the_query_is(
    spark: SparkSession, connection: Connection
) -> None:
    with connection.task_store(*TASK).attempt() as attempt:
        handle = attempt.task_store.handle()

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in batches:
            handle.set("part", 1)
            yield part

    with pytest.raises(PythonException, match=r"holdfast\.errors\.StaleAttempt: attempt 1 of task"):
        spark.range(1).mapInArrow(write, "id long").collect()


@pytest.mark.full
def test_a_function_catches_errors_by_the_classes_of_its_file(
    spark: SparkSession, task_store: TaskStore
) -> None:
    task_store.set("k", 1)
    handle = task_store.handle()

    def caught(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        found = []
        for write, kind in (
            (lambda: handle.set("k", 2, if_version=7), VersionConflict),
            (lambda: handle.set("k", 2, if_version=7), HoldfastError),
            (lambda: handle.set("k", None), InvalidInput),
            (lambda: handle.set("k", None), ValueError),
        ):
            try:
                write()
            except kind as error:
                found.append(f"{type(error).__name__} by {kind.__name__}")
        for frame in frames:
            yield frame.assign(found=", ".join(found))

    [row] = spark.range(1).mapInPandas(caught, "id long, found string").collect()

    assert row.found == (
        "VersionConflict by VersionConflict, VersionConflict by HoldfastError, "
        "InvalidInput by InvalidInput, InvalidInput by ValueError"
    )


def test_a_function_catches_errors_by_the_classes_that_it_imports_itself(
    spark: SparkSession, task_store: TaskStore, request: pytest.FixtureRequest
) -> None:
    if request.node.callspec.params["spark"] == "cluster":
        pytest.skip("Holdfast is not installed on its executors")
    task_store.set("k", 1)
    handle = task_store.handle()

    def insist(rows: Iterator[Row]) -> None:
        from holdfast.errors import VersionConflict as Imported

        for row in rows:
            try:
                handle.set("k", 2, if_version=7)
            except Imported:
                handle.set(f"caught by import {row.id}", True)
            try:
                handle.set("k", 2, if_version=7)
            except holdfast.errors.VersionConflict:
                handle.set(f"caught by module {row.id}", True)

    spark.range(0, 2, numPartitions=2).foreachPartition(insist)

    caught = [f"caught by {way} {n}" for way in ("import", "module") for n in (0, 1)]
    assert task_store.keys() == [*caught, "k"]


@pytest.mark.full
def test_there_is_one_class_of_each_error_in_an_executor(
    spark: SparkSession, task_store: TaskStore
) -> None:
    handle = task_store.handle()
    kinds = list(KINDS.values())

    def copies(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        try:
            from holdfast import errors
        except ImportError:
            installed = {}
        else:
            installed = vars(errors)
        found = [kind.__name__ for kind in kinds if installed.get(kind.__name__, kind) is not kind]
        for frame in frames:
            handle.get("k")
            yield frame.assign(copies=", ".join(found), known=len(installed) > 0)

    rows = spark.range(0, 4, numPartitions=4)
    found = [
        row
        for _ in range(2)
        for row in rows.mapInPandas(copies, "id long, copies string, known boolean").collect()
    ]

    assert {row.copies for row in found} == {""}
    assert len({row.known for row in found}) == 1


def test_an_error_from_an_executor_keeps_its_class(
    spark: SparkSession, connection: Connection
) -> None:
    with connection.task_store(*TASK).attempt() as attempt:
        handle = attempt.task_store.handle()

    class Refused(HoldfastError):
        """A class of the pipeline."""

        code = "refused"

    def report(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        errors: list[Exception] = [Refused("mine", hint="look")]
        try:
            handle.set("k", 1)
        except HoldfastError as error:
            errors.append(error)
        for frame in frames:
            yield frame.assign(errors=cloudpickle.dumps(errors))

    [row] = spark.range(1).mapInPandas(report, "id long, errors binary").collect()
    own, error = cloudpickle.loads(row.errors)

    assert type(error) is StaleAttempt
    assert "attempt 1 of task" in error.message
    assert type(own) is Refused
    assert (own.message, own.hint, own.code) == ("mine", "look", "refused")


def test_tasks_of_a_killed_executor_are_only_delayed(
    spark: SparkSession, task_store: TaskStore, request: pytest.FixtureRequest
) -> None:
    if request.node.callspec.params["spark"] != "cluster":
        pytest.skip("the executor is the driver")
    handle = task_store.handle()

    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in batches:
            for number in part.column("id").to_pylist():
                handle.set(f"{number}", number * 2)
            if task().partitionId() == 0 and handle.get("killed") is None:
                handle.set("killed", True)
                kill_executor()
            yield part

    assert spark.range(0, 10, numPartitions=2).mapInArrow(load, "id long").count() == 10
    assert task_store.get("killed") is True
    assert [task_store.get(str(number)) for number in range(10)] == list(range(0, 20, 2))


def task() -> Any:
    return TaskContext.get()


def kill_executor() -> None:
    """Kill the JVM, which is the parent of the daemon that forked this worker."""
    import signal
    from pathlib import Path

    daemon = os.getppid()
    executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(executor, signal.SIGKILL)
