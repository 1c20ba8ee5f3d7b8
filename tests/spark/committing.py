"""Writes of task code whose commits are held, run in separate processes."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attempt import BEGUN, scope_of, session_of

from holdfast.errors import SparkBusy
from holdfast.model.entry import TaskWriter
from holdfast.spark.session import operations
from holdfast.spark.session.address import SparkAddress
from holdfast.spark.session.session import end_earlier_attempts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.connect.session import SparkSession


def _shuffled(spark: SparkSession) -> DataFrame:
    return spark.range(0, 100, 1, 2).repartition(2)


def _plain(spark: SparkSession, path: str) -> None:
    spark.range(0, 100, 1, 2).write.mode("overwrite").parquet(path)


def _shuffle(spark: SparkSession, path: str) -> None:
    _shuffled(spark).write.mode("overwrite").parquet(path)


def _partitions(spark: SparkSession, path: str) -> None:
    rows = _shuffled(spark).selectExpr("id", "id % 2 AS half")
    rows.write.partitionBy("half").mode("overwrite").parquet(path)


def _table(spark: SparkSession, path: str) -> None:
    query = "SELECT /*+ REPARTITION(2) */ id FROM range(100)"
    spark.sql(f"CREATE TABLE held USING parquet LOCATION '{path}' AS {query}")


def _directory(spark: SparkSession, path: str) -> None:
    query = "SELECT /*+ REPARTITION(2) */ id FROM range(100)"
    spark.sql(f"INSERT OVERWRITE DIRECTORY '{path}' USING parquet {query}")


def _batch(spark: SparkSession, path: str) -> None:
    def write(rows: DataFrame, number: int) -> None:
        rows.repartition(2).write.mode("overwrite").parquet(path)

    stream = spark.readStream.format("rate").load().writeStream
    stream.option("checkpointLocation", tempfile.mkdtemp()).foreachBatch(write).start()
    time.sleep(600)


def _stream(spark: SparkSession, path: str) -> None:
    stream = spark.readStream.format("rate").load().repartition(2).writeStream.format("parquet")
    stream.option("checkpointLocation", tempfile.mkdtemp()).start(path)
    time.sleep(600)


WRITES: Final[dict[str, Callable[[SparkSession, str], None]]] = {
    "plain": _plain,
    "shuffle": _shuffle,
    "partitions": _partitions,
    "table": _table,
    "directory": _directory,
    "batch": _batch,
    "stream": _stream,
}


def write(address: SparkAddress, task: str, kind: str, path: str) -> None:
    with session_of(address, task) as spark:
        WRITES[kind](spark, path)


def end_while_it_commits(address: SparkAddress, name: str, path: str, held: Path) -> None:
    """End a session whose write, in another thread, is in its commit when a file appears."""
    with session_of(address, name) as spark:
        threading.Thread(target=_shuffle, args=(spark, path), daemon=True).start()
        while not held.exists():
            time.sleep(0.05)


def end_by_a_signal(address: SparkAddress, name: str, path: str) -> None:
    """Write until SIGTERM. The requests of PySpark to Spark about the write are then slow."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with session_of(address, name) as spark:
        stub: Any = spark.client._stub
        release = stub.ReleaseExecute

        def slowly(*arguments: Any, **named: Any) -> Any:
            time.sleep(1)
            return release(*arguments, **named)

        stub.ReleaseExecute = slowly
        _shuffle(spark, path)


def try_to_begin(address: SparkAddress, name: str, attempt: int, limit: float) -> str:
    """Return the error of an attempt that finds an earlier one still running."""
    operations.LIMIT = limit  # type: ignore[misc]
    try:
        end_earlier_attempts(address, TaskWriter(scope_of(name), attempt), BEGUN)
    except SparkBusy as error:
        return str(error)
    return ""
