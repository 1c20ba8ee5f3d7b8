"""Loads from PostgreSQL by a JVM whose clock goes back: `python zoned_loads.py JDBC URL DIRECTORY`.

Run it with a time zone that has daylight saving time in TZ. Prints the ids that each load has.
"""

from __future__ import annotations

import json
import os
import sys

import psycopg
from pyspark.sql import SparkSession

import holdfast
from holdfast.spark import incremental

JAR = "/usr/share/java/postgresql.jar"
ARRIVALS = (("00:10", "00:30"), ("00:40", "01:10", "01:29", "01:50"), ("03:00",))
"""Times of 26 October 2025 in UTC; clocks in Berlin went back at 01:00 UTC."""


def main(jdbc: str, url: str, directory: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.jars", JAR)
    builder = builder.config("spark.driver.extraClassPath", JAR).config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    options = {"url": jdbc, "user": "postgres", "driver": "org.postgresql.Driver"}
    with (
        holdfast.connect(f"sqlite:///{directory}/state.db") as connection,
        psycopg.connect(url, autocommit=True) as database,
    ):
        asset = connection.asset_store(name="orders", declare=True)
        database.execute("CREATE TABLE orders (id serial, at timestamptz)")
        for times in ARRIVALS:
            for time in times:
                database.execute(
                    "INSERT INTO orders (at) VALUES (%s)", (f"2025-10-26 {time}:00+00",)
                )
            table = spark.read.format("jdbc").options(dbtable="orders", **options).load()
            loaded: list[int] = []
            incremental(table, asset, cursor="at").write(
                lambda new, loaded=loaded: loaded.extend(row.id for row in new.collect())
            )
            print(json.dumps(sorted(loaded)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
