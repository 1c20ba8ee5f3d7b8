"""Reading the task store into Spark, beside Spark's own JDBC source on the same table."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import psycopg
from pyspark.sql import DataFrame, SparkSession

from bench.report import Table
from bench.rounds import ROUNDS, in_turns
from bench.size import SIZE
from bench.spark.postgres import postgres_over_tcp
from bench.spark.run import Run
from bench.spark.session import JDBC_DRIVER, local_spark
from holdfast.spark.source.registration import register
from holdfast.stores.sql.schema import migrate

JDBC, HOLDFAST = "JDBC", "holdfast"
PARTITIONS = 8
FETCHED = 10_000
INSTANCES = 1000
"""Task instances that share the entries."""

_FILL = """
INSERT INTO hf_run (id, dag_id, run_id, created_at)
SELECT n, 'dag ' || n % 10, 'run ' || n, 0 FROM generate_series(1, 100) n;

INSERT INTO hf_task_instance (ti_id, run, task_id, map_index, revision, attempt)
SELECT md5(n::text)::uuid, 1 + n % 100, 'task ' || n, -1, 1, 1
FROM generate_series(1, {instances}) n;

INSERT INTO hf_task_entry (ti_id, key, value, version, updated_at, expires_at)
SELECT md5(n::text)::uuid, 'file ' || k,
       '{{"path":"s3://bucket/part-' || k || '","rows":' || k || '}}',
       k, 1700000000000000 + k, 4000000000000000
FROM generate_series(1, {instances}) n, generate_series(1, {each}) k
ORDER BY n, k;

ANALYZE;
"""


def measure(run: Run) -> None:
    """Rows a second of each, in turns: all columns of all rows, to nowhere.

    The claim is about JDBC as Spark has it by default, which takes all rows of a partition into
    memory at once; with a fetch size it does not, and may be faster.
    """
    rows = SIZE.of(2_000, 200_000, 1_000_000)
    if not JDBC_DRIVER.exists():
        run.report.notes.append(
            f"reading was not measured: {JDBC_DRIVER} is missing (Debian: libpostgresql-jdbc-java)"
        )
        return
    with postgres_over_tcp(run.directory) as url, local_spark(run.directory) as spark:
        migrate(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_FILL.format(instances=INSTANCES, each=rows // INSTANCES))
        register(spark, url)
        cold, seconds = _timed(
            {
                JDBC: lambda: _jdbc(spark, url),
                f"JDBC, fetchsize {FETCHED:,}": lambda: _jdbc(spark, url, fetchsize=FETCHED),
                HOLDFAST: lambda: _ours(spark),
            }
        )
    rates = {name: rows / median(times) for name, times in seconds.items()}
    run.report.tables.append(
        Table(
            f"Reading {rows:,} task entries from PostgreSQL, {PARTITIONS} partitions",
            ("source", "rows/s", "of JDBC", "seconds of the first", "of all rounds after it"),
            [
                (
                    name,
                    f"{rate:,.0f}",
                    f"{rate / rates[JDBC]:.2f}",
                    f"{cold[name]:.2f}",
                    ", ".join(f"{one:.2f}" for one in seconds[name]),
                )
                for name, rate in rates.items()
            ],
        )
    )
    run.report.at_least(
        1.1,
        "reading task entries, as fast as JDBC",
        rates[HOLDFAST] / rates[JDBC],
        "fewer rows than a second's work, or the machine was busy elsewhere",
    )


def _ours(spark: SparkSession) -> DataFrame:
    reader = spark.read.format("holdfast").option("table", "task_store")
    return reader.option("partitions", PARTITIONS).load()


def _jdbc(spark: SparkSession, url: str, **options: int) -> DataFrame:
    """The table of entries alone, without the names of whose they are."""
    with psycopg.connect(url) as connection:
        ends = connection.execute("SELECT min(id), max(id) FROM hf_task_entry").fetchone()
    assert ends is not None
    return (
        spark.read.format("jdbc")
        .option("url", "jdbc:" + url.replace("postgres@", ""))
        .option("user", "postgres")
        .option("driver", "org.postgresql.Driver")
        .option("dbtable", "hf_task_entry")
        .option("partitionColumn", "id")
        .option("lowerBound", ends[0])
        .option("upperBound", ends[1])
        .option("numPartitions", PARTITIONS)
        .options(**options)
        .load()
    )


def _timed(
    contenders: dict[str, Callable[[], DataFrame]],
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Seconds of each contender's first round, and of those after it."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(ROUNDS + 1):
        for name in in_turns(list(contenders), turn):
            start = time.perf_counter()
            contenders[name]().write.format("noop").mode("overwrite").save()
            seconds[name].append(time.perf_counter() - start)
    first = {name: times.pop(0) for name, times in seconds.items()}
    return first, seconds
