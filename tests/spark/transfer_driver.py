"""Slow export or copy of a store: `python transfer_driver.py export|copy URL TARGET`."""

from __future__ import annotations

import sys
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from transfers import EVERYTHING, SMALL, registered, silent

import holdfast
from holdfast.portable.source.location import Location
from holdfast.spark.transfer.copying import copy_entries
from holdfast.spark.transfer.exporting import export_entries
from holdfast.spark.transfer.plan import Chunk

ENTRIES = Chunk.entries


def entries(chunk: Chunk, spark: SparkSession, **options: Any) -> DataFrame:
    """Return the entries after a second, within which progress is recorded."""
    time.sleep(1.2)
    return ENTRIES(chunk, spark, **options)


def main(kind: str, url: str, target: str) -> None:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    registered(spark, url)
    options: dict[str, Any] = {"resolve": False, "agree": silent, "say": silent, "rows": SMALL}
    with holdfast.connect(url) as connection:
        if kind == "export":
            export_entries(spark, connection, target, EVERYTHING, **options)
        else:
            to = Location(target)
            copy_entries(spark, connection, to, EVERYTHING, declare=True, **options)


if __name__ == "__main__":
    Chunk.entries = entries  # type: ignore[method-assign]
    main(*sys.argv[1:])
