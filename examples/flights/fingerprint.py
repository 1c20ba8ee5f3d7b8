"""What a table of the warehouse holds, in a few letters."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F


class Fingerprint(NamedTuple):
    """Equal where tables hold the same rows, however these lie in files."""

    rows: int
    days: int
    checksum: str


def fingerprint(spark: SparkSession, table: Path) -> Fingerprint:
    """Read the table. The checksum is over its sorted rows, day by day."""
    rows = spark.read.parquet(str(table))
    columns = sorted(rows.columns)
    # The hash passes over nulls, so where they are goes in as well.
    row = F.hex(F.xxhash64(*columns, *(F.isnull(column) for column in columns)))
    days = rows.groupBy("date").agg(F.count("*").alias("rows"), of_sorted(row).alias("checksum"))
    day = F.concat(F.col("date").cast("string"), "checksum")
    return Fingerprint(*days.agg(F.sum("rows"), F.count("*"), of_sorted(day)).collect()[0])


def of_sorted(text: Column) -> Column:
    return F.sha2(F.concat_ws(",", F.sort_array(F.collect_list(text))), 256)
