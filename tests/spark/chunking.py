"""Attempt that writes chunks through Spark Connect, and waits in the middle of one."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import holdfast
from holdfast.accessor.task_store import TaskStore
from holdfast.spark.checkpoints import chunks
from holdfast.spark.checkpoints.chunks import write_chunks

NUMBERS = range(3)
GATED = 1


def remote_of(spark: Any) -> str:
    """Return the server of the session."""
    client = spark.client
    return f"sc://{client._builder.endpoint}/;token={quote(client.token, safe='')}"


def write_numbers(
    spark: Any, task_store: TaskStore, out: Path, writer: str, gate: Path | None = None
) -> list[str]:
    """Write ten rows for each number, marked with their writer. Half of the rows of one number are
    computed only when the gate exists."""

    def wait(number: int) -> int:
        while number % 10 >= 5 and gate is not None and not gate.exists():
            time.sleep(0.02)
        return number

    def make(number: int) -> Any:
        from pyspark.sql.functions import lit, udf

        rows = spark.range(10 * number, 10 * number + 10, 1, 2).withColumn("writer", lit(writer))
        if number != GATED or gate is None:
            return rows
        return rows.select(udf(wait, "long")("id").alias("id"), "writer")

    return write_chunks(NUMBERS, task_store, str(out), make, key="chunks")


def write_as_a_zombie(remote: str, url: str, out: Path, gate: Path, renamed: bool) -> None:
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    from pyspark.sql import SparkSession

    if not renamed:
        chunks.renames = without_renames
    spark = SparkSession.builder.remote(remote).create()
    with (
        holdfast.connect(url) as connection,
        connection.task_store("d", "r", "t").attempt() as attempt,
    ):
        write_numbers(spark, attempt.task_store, out, "zombie", gate)


def without_renames(spark: Any, path: str) -> bool:
    """Return that the path cannot be renamed, as for object storage without a Spark connector."""
    return False
