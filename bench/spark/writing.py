"""Loading entries into the task store from Spark, beside PostgreSQL's own COPY into its table."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import psycopg
from pyspark.sql import DataFrame, SparkSession

from bench.report import Table
from bench.rounds import ROUNDS, in_turns
from bench.size import SIZE
from bench.spark.run import Run
from bench.spark.session import local_spark
from bench.store.databases import private_databases
from holdfast.spark.source.registration import register

INSTANCES = 1000
"""Task instances that share the entries."""

_COPY = """
COPY hf_task_entry (ti_id, key, value, version, updated_at, expires_at, writer) FROM STDIN
"""
_COPIED = """
COPY (SELECT ti_id, key, value, version, updated_at, expires_at, writer FROM hf_task_entry
      ORDER BY md5(key || ti_id)) TO STDOUT
"""


def measure(run: Run) -> None:
    """Entries a second of each, in turns, into a table that is empty but for its indexes."""
    entries = SIZE.of(2_000, 200_000, 1_000_000)
    with private_databases() as databases, local_spark(run.directory) as spark:
        url = databases.make_store("postgresql", "loads")
        register(spark, url)
        rows = _rows(spark, entries)
        with psycopg.connect(url, autocommit=True) as connection:
            _save(rows)  # so that COPY finds its task instances, and the same rows
            copied = _copied(connection)
            seconds = _timed(
                connection, {"COPY": lambda: _copy(connection, copied), "holdfast": _saving(rows)}
            )
    rates = {name: entries / median(times) for name, times in seconds.items()}
    run.report.tables.append(
        Table(
            f"Loading {entries:,} entries of {INSTANCES:,} task instances into PostgreSQL",
            ("loaded by", "entries/s", "seconds of all rounds"),
            [
                (name, f"{rates[name]:,.0f}", ", ".join(f"{one:.2f}" for one in seconds[name]))
                for name in rates
            ],
        )
    )
    run.report.at_least(
        0.3,
        "loading task entries, as fast as COPY",
        rates["holdfast"] / rates["COPY"],
        "so few entries that the start of Spark's Python processes counts, or a busy machine",
    )


def _rows(spark: SparkSession, entries: int) -> DataFrame:
    return spark.range(entries).selectExpr(
        "'imported' AS dag_id",
        f"concat('run ', id % {INSTANCES} % 100) AS run_id",
        f"concat('task ', id % {INSTANCES}) AS task_id",
        f"concat('file ', id div {INSTANCES}) AS key",
        "to_json(named_struct('path', concat('s3://bucket/part-', id), 'rows', id)) AS value",
    )


def _save(rows: DataFrame) -> None:
    rows.write.format("holdfast").option("table", "task_store").mode("append").save()


def _saving(rows: DataFrame) -> Callable[[], None]:
    return lambda: _save(rows)


def _copied(connection: psycopg.Connection) -> bytes:
    """The entries as COPY takes them, in no order that would help it."""
    with connection.cursor().copy(_COPIED) as source:
        return b"".join(source)


def _copy(connection: psycopg.Connection, copied: bytes) -> None:
    with connection.cursor().copy(_COPY) as target:
        target.write(copied)


def _timed(
    connection: psycopg.Connection, contenders: dict[str, Callable[[], None]]
) -> dict[str, list[float]]:
    """Seconds of each round, after one to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(ROUNDS + 1):
        for name in in_turns(list(contenders), turn):
            connection.execute("TRUNCATE hf_task_entry")
            connection.execute("CHECKPOINT")
            start = time.perf_counter()
            contenders[name]()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds
