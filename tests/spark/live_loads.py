"""Loads from a PostgreSQL table with concurrent changes: `python live_loads.py JDBC_URL DIRECTORY`.

Prints, for each load, the rows that each of its two sinks has.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast.spark import incremental

JAR = "/usr/share/java/postgresql.jar"
LOADS = 8


def main(url: str, directory: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.jars", JAR)
    builder = builder.config("spark.driver.extraClassPath", JAR).config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    with holdfast.connect(f"sqlite:///{directory}/state.db") as connection:
        asset = connection.asset_store(name="orders", declare=True)
        stop = Path(directory, "stop")
        for number in range(LOADS + 1):
            if number == LOADS:  # the table no longer changes during the last load
                stop.touch()
                while not Path(directory, "stopped").exists():
                    pass
            print(json.dumps(load(spark, url, asset)), flush=True)
    spark.stop()


def load(spark: SparkSession, url: str, asset: Any) -> list[list[list[Any]]]:
    options = {"url": url, "user": "postgres", "driver": "org.postgresql.Driver"}
    table = spark.read.format("jdbc").options(dbtable="orders", **options).load()
    new = incremental(table, asset, cursor="at", lag=timedelta(seconds=20), primary_key="id")
    sinks: list[list[list[Any]]] = []

    def write(rows: DataFrame) -> None:
        for _ in range(2):
            found = rows.selectExpr("id", "n", "unix_micros(at) AS at").collect()
            sinks.append([list(row) for row in found])

    new.write(write)
    return sinks


if __name__ == "__main__":
    main(*sys.argv[1:])
