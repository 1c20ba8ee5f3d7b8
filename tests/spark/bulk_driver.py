"""Bulk write whose last partition never ends: `python bulk_driver.py URL`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pyarrow as pa
from bulk_rows import save, task_rows
from pyspark.sql import SparkSession

from holdfast.spark.source.registration import register


def stuck(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if "key 39" in batch.column("key").to_pylist():
            time.sleep(600)
        yield batch


def main(url: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    register(spark, url)
    rows = task_rows(spark)
    save(rows.mapInArrow(stuck, rows.schema))


if __name__ == "__main__":
    main(sys.argv[1])
