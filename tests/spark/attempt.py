"""Task code that uses its Spark session, in processes forked from one that has loaded Spark, as in
the runner."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.accessor.task_store import ExternalTaskStore, TaskStore
from holdfast.errors import SparkUnavailable
from holdfast.model.entry import TaskWriter
from holdfast.model.scope import TaskScope
from holdfast.spark.session.address import SparkAddress
from holdfast.spark.session.session import task_session
from holdfast.testing.memory_store import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.connect.session import SparkSession

BEGUN = datetime(2026, 1, 31, tzinfo=UTC)


def scope_of(name: str) -> TaskScope:
    return TaskScope("dag", "run", name)


def store_of(name: str) -> TaskStore:
    return ExternalTaskStore(MemoryStore(), scope_of(name), TaskWriter(scope_of(name)))


@contextmanager
def session_of(address: SparkAddress, name: str, attempt: int = 1) -> Iterator[SparkSession]:
    writer = TaskWriter(scope_of(name), attempt)
    with task_session(address, store_of(name), writer, BEGUN) as spark:
        yield spark


def describe_session(address: SparkAddress) -> dict[str, Any]:
    from pyspark.sql import SparkSession, functions

    elsewhere: list[Any] = []
    with session_of(address, "described") as spark:
        thread = threading.Thread(
            target=lambda: elsewhere.append(SparkSession.builder.getOrCreate())
        )
        thread.start()
        thread.join()
        executor_python = functions.udf(lambda: sys.executable, "string")
        is_utc = spark.sql("select timestamp '2026-03-29 02:30:00' = '2026-03-29T02:30:00Z'")
        return {
            "created": SparkSession.builder.appName("mine").getOrCreate() is spark,
            "active": SparkSession.active() is spark,
            "in another thread": elsewhere == [spark],
            "python": spark.range(1).select(executor_python()).first()[0],
            "utc": is_utc.first()[0],
            "zone": spark.conf.get("spark.sql.session.timeZone"),
        }


def count_in_trace(address: SparkAddress, trace: str) -> None:
    os.environ["TRACEPARENT"] = f"00-{trace}-00f067aa0ba902b7-01"
    with session_of(address, "traced") as spark:
        spark.range(7).count()


def stop_and_go_on(address: SparkAddress) -> int:
    with session_of(address, "stopped") as spark:
        spark.range(7).createOrReplaceTempView("numbers")
        spark.stop()
        return int(spark.sql("select * from numbers").count())


def count_in_turn(address: SparkAddress, name: str, since: float) -> float:
    """Return the seconds from a time until the first Spark job of this process has ended."""
    with session_of(address, name) as spark:
        assert spark.range(100).count() == 100
        return time.time() - since


def compute_for_long(address: SparkAddress, name: str) -> None:
    """Occupy every core for minutes."""
    with session_of(address, name) as spark:
        spark.range(0, 10**13, 1, 64).selectExpr("sum(id % 7)").collect()


def slowly(column: str) -> Column:
    """Take half a second in Python for each row."""
    from pyspark.sql import functions

    return functions.udf(lambda number: time.sleep(0.5) or number, "long")(column)


def compute_in_python_for_long(address: SparkAddress, name: str) -> None:
    with session_of(address, name) as spark:
        spark.range(0, 10_000, 1, 64).select(slowly("id")).collect()


def take_over(address: SparkAddress, name: str, attempt: int) -> tuple[float, float]:
    """Return the seconds until the session is open, and until a first job on it has ended."""
    begin = time.monotonic()
    with session_of(address, name, attempt) as spark:
        opened = time.monotonic()
        spark.range(0, 100, 1, 2).count()
        return opened - begin, time.monotonic() - begin


def go_on_as_a_zombie(address: SparkAddress) -> str:
    """Return the errors of an attempt that has been superseded without noticing."""
    from pyspark.errors import PySparkException

    with session_of(address, "zombie", 1) as spark:
        spark.range(3).count()
        with session_of(address, "zombie", 2):
            try:
                spark.range(3).count()
            except PySparkException as error:
                return str(error)
    return ""


def open_late(address: SparkAddress) -> str:
    """Return the error of an attempt that asks for a session only after it has been superseded."""
    with session_of(address, "late", 3):
        try:
            with session_of(address, "late", 2):
                return ""
        except SparkUnavailable as error:
            return str(error)


def lose_spark(address: SparkAddress, begun: Path) -> float:
    """Return when a job has failed whose server was killed, and its session is over."""
    from pyspark.errors import PySparkException

    with suppress(PySparkException), session_of(address, "bereft") as spark:
        begun.touch()
        spark.range(0, 10**13, 1, 64).selectExpr("sum(id % 7)").collect()
    return time.monotonic()


def try_to_open(address: SparkAddress) -> tuple[str, float]:
    begin = time.monotonic()
    try:
        with session_of(address, "refused"):
            return "", 0
    except SparkUnavailable as error:
        return str(error), time.monotonic() - begin


def progress_of_jobs(address: SparkAddress) -> dict[str, Any]:
    store = store_of("progress")
    with task_session(address, store, TaskWriter(scope_of("progress"), 1), BEGUN) as spark:
        # Long enough for Spark to report on both.
        for rows in (8, 4):
            spark.range(0, rows, 1, rows).select(slowly("id")).collect()
    return dict(store.items())


def progress_of_rows(address: SparkAddress, place: Path) -> Any:
    """Return the reported rows of a session beside another one."""
    with session_of(address, "other rows") as spark:
        spark.range(0, 1000, 1, 2).write.parquet(f"{place}/other")
    store = store_of("rows")
    with task_session(address, store, TaskWriter(scope_of("rows"), 1), BEGUN) as spark:
        spark.range(0, 10, 1, 2).write.parquet(f"{place}/numbers")
        numbers = spark.read.parquet(f"{place}/numbers")
        numbers.where(slowly("id") < 4).write.parquet(f"{place}/few")
    return store.get("spark_progress")


def progress_of_a_stream(address: SparkAddress, place: Path) -> dict[str, Any]:
    from holdfast.spark import follow

    (place / "in").mkdir()
    (place / "in" / "1.json").write_text('{"number": 1}')
    store = store_of("streamed")
    with task_session(address, store, TaskWriter(scope_of("streamed"), 1), BEGUN) as spark:
        stream = spark.readStream.schema("number long").json(f"{place}/in").writeStream
        stream = stream.format("noop").option("checkpointLocation", f"{place}/checkpoint")
        follow(stream.trigger(availableNow=True).start(), store)
    return dict(store.items())


def write_in_python(address: SparkAddress, path: str) -> None:
    """Write rows that executors compute in Python."""
    from pyspark.sql import functions

    with session_of(address, "written") as spark:
        executor_python = functions.udf(lambda: sys.executable, "string")
        spark.range(4).select(executor_python().alias("python")).write.text(path)
