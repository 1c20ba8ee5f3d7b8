"""Loading what is new since the watermark, beside loading all, and beside code of one's own.

The source is Parquet, partitioned by day; the last hundredth of its rows is new. All contenders
write the same columns to a directory of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Final

import holdfast
from bench.report import Table
from bench.rounds import in_turns
from bench.spark.run import Run
from holdfast.spark.loads.incremental import incremental
from holdfast.value import JsonValue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

FIRST_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)
DAYS: Final = 100
ROUNDS: Final = 5
FULL, INCREMENTAL, BY_HAND = "all rows", "incremental", "by hand, given the watermark"


def measure(run: Run) -> None:
    """Seconds of each, in turns."""
    rows = 20_000_000 if run.full else 2_000_000
    with local_spark(run.directory) as spark:
        source = str(run.directory / "source")
        make_source(spark, source, rows)
        seconds = time_all(spark, run.directory, source)
    report(run, rows, {name: median(times) for name, times in seconds.items()})


@contextmanager
def local_spark(directory: Path) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    conf: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Files tell their first and last time, by which most are passed over; in Spark's default
        # type for times, they do not.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(directory / "scratch"),
    }
    spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def make_source(spark: SparkSession, path: str, rows: int) -> None:
    """Rows at even distances over the days, one file for each."""
    from pyspark.sql import functions

    step = timedelta(days=DAYS) // rows
    micros = functions.col("id") * functions.lit(step // timedelta(microseconds=1))
    start = functions.lit(int(FIRST_DAY.timestamp()) * 1_000_000)
    source = spark.range(0, rows, 1, DAYS).select(
        "id",
        functions.timestamp_micros(start + micros).alias("at"),
        (functions.rand(7) * 1000).cast("decimal(10,2)").alias("amount"),
        functions.sha2(functions.col("id").cast("string"), 256).alias("note"),
    )
    by_day = source.withColumn("day", functions.to_date("at"))
    by_day.write.partitionBy("day").parquet(path)


def time_all(spark: SparkSession, directory: Path, source: str) -> dict[str, list[float]]:
    last = FIRST_DAY + timedelta(days=DAYS - 1)
    since = last - timedelta(microseconds=1)
    with holdfast.connect(f"sqlite:///{directory / 'state.db'}") as connection:
        asset = connection.asset_store(name="events", declare=True)
        mark: JsonValue = {"cursor": "at", "type": "timestamp", "value": since.isoformat()}

        def ours(target: str) -> None:
            asset.set("watermark", mark)
            load = incremental(spark.read.schema(schema).parquet(source), asset, cursor="at")
            load.write(lambda new: overwrite(new, target))

        def by_hand(target: str) -> None:
            df = spark.read.schema(schema).parquet(source)
            overwrite(df.where(df["at"] > since), target)

        def everything(target: str) -> None:
            overwrite(spark.read.schema(schema).parquet(source), target)

        schema = spark.read.parquet(source).schema
        works = {INCREMENTAL: ours, BY_HAND: by_hand, FULL: everything}
        return in_rounds(works, str(directory / "target"))


def overwrite(df: DataFrame, target: str) -> None:
    df.write.mode("overwrite").parquet(target)


def in_rounds(works: Mapping[str, Callable[[str], None]], target: str) -> dict[str, list[float]]:
    for work in works.values():
        work(target)
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(ROUNDS):
        for name in in_turns(list(works), number):
            begin = time.perf_counter()
            works[name](target)
            seconds[name].append(time.perf_counter() - begin)
    return seconds


def report(run: Run, rows: int, seconds: dict[str, float]) -> None:
    cells = [(name, f"{taken:.2f}") for name, taken in seconds.items()]
    title = f"Incremental load of 1 % of {rows:,} rows in Parquet, partitioned by day"
    run.report.tables.append(Table(title, ("What", "seconds"), cells))
    run.report.at_least(
        10,
        "incremental load of 1 % new rows, times as fast as the full load",
        seconds[FULL] / seconds[INCREMENTAL],
        "what a Spark job costs in itself outweighs the rows at this size",
    )
    run.report.at_most(
        1.2,
        "incremental load, times the seconds of hand-written code that is given the watermark",
        seconds[INCREMENTAL] / seconds[BY_HAND],
        "reading and staging the watermark costs what a small job costs",
    )
