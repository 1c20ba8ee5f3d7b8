"""Loads read by a JVM whose locale is not UTF-8: `LC_ALL=C python plain_locale.py HOME PATH`.

Prints the rows, or the error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from loading import connection
from pyspark.sql import SparkSession

from holdfast.errors import InvalidInput
from holdfast.spark import read_loads


def main(home: str, path: str) -> None:
    spark = (
        SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    )
    with connection(Path(home)) as store:
        try:
            print(read_loads(spark, store.asset_store(name="orders"), path).collect())
        except InvalidInput as error:
            print(error)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
