"""Fingerprint of a table of the warehouse."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F


class Fingerprint(NamedTuple):
    """A fingerprint that is equal for tables with the same rows, however the files differ."""

    rows: int
    days: int
    checksum: str


def fingerprint(spark: SparkSession, table: Path) -> Fingerprint:
    """Compute the fingerprint of a table, with a checksum of its sorted rows, day by day."""
    rows = spark.read.parquet(str(table))
    columns = sorted(rows.columns)
    # The hash ignores nulls, so their positions are hashed as well.
    row = F.hex(F.xxhash64(*columns, *(F.isnull(column) for column in columns)))
    days = rows.groupBy("date").agg(F.count("*").alias("rows"), of_sorted(row).alias("checksum"))
    day = F.concat(F.col("date").cast("string"), "checksum")
    return Fingerprint(*days.agg(F.sum("rows"), F.count("*"), of_sorted(day)).collect()[0])


def of_sorted(text: Column) -> Column:
    return F.sha2(F.concat_ws(",", F.sort_array(F.collect_list(text))), 256)
