"""Files of lake tables that executors write and read with Arrow, beside Spark's own Parquet."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from bench.report import Table
from bench.rounds import ROUNDS, in_turns
from bench.size import SIZE
from bench.spark.run import Run
from bench.spark.session import local_spark
from holdfast.spark.lake.changes import TableFile
from holdfast.spark.lake.executor_files import collect_footers, read_files, write_files
from holdfast.spark.lake.table import Storage

PLACE = "data-holdfast/load/attempt"


def measure(run: Run) -> None:
    """Seconds of each, in turns."""
    rows = SIZE.of(10_000, 5_000_000, 5_000_000)
    with local_spark(run.directory) as spark:
        source = _rows(spark, rows)
        writing = {
            "Spark": _by_spark(source, run.directory / "spark"),
            "executors": _by_executors(source, run.directory / "executors"),
        }
        written = _timed(writing)
        reading = {
            "Spark": _read_by_spark(spark, run.directory / "spark"),
            "executors": _read_by_executors(spark, run.directory / "spark", source),
        }
        read = _timed(reading)
    sides = {"write": written, "read": read}
    run.report.tables.append(
        Table(
            f"Writing and reading {rows:,} rows of six columns as Parquet",
            ("", "seconds of Spark's own", "of executors with Arrow", "ratio"),
            [
                (
                    side,
                    *(", ".join(f"{one:.2f}" for one in found[name]) for name in found),
                    f"{_ratio(found):.2f}",
                )
                for side, found in sides.items()
            ],
        )
    )
    run.report.at_most(
        1.5,
        "writing the files of a lake table with Arrow, beside Spark's Parquet writer",
        _ratio(written),
        "a busy machine, or so few rows that the start of Spark's Python processes counts",
    )


def _ratio(found: dict[str, list[float]]) -> float:
    return median(found["executors"]) / median(found["Spark"])


def _rows(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr(
        "id",
        "concat('customer ', id % 100003) AS customer",
        "CAST(id % 100000 / 100 AS decimal(10, 2)) AS amount",
        "timestamp_seconds(1700000000 + id) AS changed_at",
        "rand(7) AS weight",
        "md5(string(id)) AS note",
    )


def _by_spark(rows: DataFrame, directory: Path) -> Callable[[], None]:
    def write() -> None:
        shutil.rmtree(directory, ignore_errors=True)
        rows.write.parquet(f"{directory}/{PLACE}")

    return write


def _by_executors(rows: DataFrame, directory: Path) -> Callable[[], None]:
    def write() -> None:
        shutil.rmtree(directory, ignore_errors=True)
        write_files(rows, Storage(str(directory), {}), PLACE, [], keep_partition_columns=False)

    return write


def _read_by_spark(spark: SparkSession, directory: Path) -> Callable[[], None]:
    return lambda: _consume(spark.read.parquet(f"{directory}/{PLACE}"))


def _read_by_executors(spark: SparkSession, directory: Path, rows: DataFrame) -> Callable[[], None]:
    storage = Storage(str(directory), {})
    found = [
        TableFile(file.path, file.size, None) for file in collect_footers(spark, storage, PLACE, [])
    ]
    schema = rows.schema
    return lambda: _consume(read_files(spark, storage, found, schema))


def _consume(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _timed(contenders: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
    """Seconds of each round, after one to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(ROUNDS + 1):
        for name in in_turns(list(contenders), turn):
            start = time.perf_counter()
            contenders[name]()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds
