"""Loading what is new since the watermark, beside code of one's own that is given both ends.

The source is Parquet with statistics, partitioned by day; the last hundredth of its rows is new.
All contenders write the same columns to a directory of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import holdfast
from bench.report import Table
from bench.rounds import ROUNDS, in_turns
from bench.size import SIZE
from bench.spark.run import Run
from bench.spark.session import local_spark
from holdfast.model.value import JsonValue
from holdfast.spark.loads.incremental import incremental

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

FIRST_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)
DAYS: Final = SIZE.of(10, 100, 100)
LAST_DAY: Final = FIRST_DAY + timedelta(days=DAYS - 1)
BY_HAND = "1 % new, by hand, given both ends"
INCREMENTAL = "1 % new, incremental"
GIVEN = "1 % new, incremental, given until="
KEYED = "1 % new, incremental, with a key"
SAVED = "1 % new, incremental, saved"
ALL_BY_HAND = "first load, by hand, given both ends"
FIRST = "first load, incremental"
FIRST_GIVEN = "first load, incremental, given until="


def measure(run: Run) -> None:
    """Seconds of each, in turns."""
    rows = SIZE.of(10 * DAYS, 2_000_000, 20_000_000)
    with local_spark(run.directory) as spark:
        source = str(run.directory / "source")
        make_source(spark, source, rows)
        seconds = time_all(spark, run.directory, source)
    report(run, rows, {name: median(times) for name, times in seconds.items()})


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
    since = LAST_DAY - timedelta(microseconds=1)
    end = FIRST_DAY + timedelta(days=DAYS)
    with holdfast.connect(f"sqlite:///{directory / 'state.db'}") as connection:
        asset = connection.asset_store(name="events", declare=True)
        mark: JsonValue = {"cursor": "at", "type": "timestamp", "value": since.isoformat()}

        def read() -> DataFrame:
            return spark.read.schema(schema).parquet(source)

        def new(target: str, **rules: Any) -> None:
            asset.set("watermark", mark)
            load = incremental(read(), asset, cursor="at", **rules)
            load.write(lambda rows: overwrite(rows, target))

        def saved(target: str) -> None:
            asset.set("watermark", mark)
            incremental(read(), asset, cursor="at").save(target)

        def first(target: str, **rules: Any) -> None:
            asset.delete("watermark")
            load = incremental(read(), asset, cursor="at", **rules)
            load.write(lambda rows: overwrite(rows, target))

        def by_hand(target: str, low: datetime) -> None:
            df = read()
            overwrite(df.where(df["at"] > low).where(df["at"] <= end), target)

        schema = spark.read.parquet(source).schema
        works: dict[str, Callable[[str], None]] = {
            BY_HAND: lambda target: by_hand(target, since),
            INCREMENTAL: new,
            GIVEN: lambda target: new(target, until=end),
            KEYED: lambda target: new(target, primary_key="id"),
            SAVED: saved,
            ALL_BY_HAND: lambda target: by_hand(target, FIRST_DAY - timedelta(days=1)),
            FIRST: first,
            FIRST_GIVEN: lambda target: first(target, until=end),
        }
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
    title = f"Incremental load of {rows:,} rows in Parquet, partitioned by day"
    run.report.tables.append(Table(title, ("What", "seconds"), cells))
    why = "the machine was busy: the contenders take turns, and a job's own cost varies"
    for found, given, what in ((INCREMENTAL, GIVEN, "1 %"), (FIRST, FIRST_GIVEN, "a first load")):
        limit = max(0.4, 0.12 * seconds[found])
        cost = seconds[found] - seconds[given]
        run.report.at_most(limit, f"finding the end of {what}, seconds", cost, why)
    for given, by_hand, what in (
        (GIVEN, BY_HAND, "1 %"),
        (FIRST_GIVEN, ALL_BY_HAND, "a first load"),
    ):
        ratio = seconds[given] / seconds[by_hand]
        run.report.at_most(1.1, f"the load of {what} beyond that, times by hand", ratio, why)
