"""A local Spark, the same for all sections: they share a JVM, whose class path cannot change."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

JDBC_DRIVER = Path("/usr/share/java/postgresql.jar")


@contextmanager
def local_spark(directory: Path) -> Iterator[SparkSession]:
    warnings.simplefilter("ignore", ResourceWarning)
    conf: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Files tell their first and last time, by which most are passed over; in Spark's default
        # type for times, they do not.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.driver.memory": "2g",
        "spark.driver.extraClassPath": str(JDBC_DRIVER),
        "spark.local.dir": str(directory / "scratch"),
    }
    spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
