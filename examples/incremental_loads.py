"""Load new rows with each way of writing that Spark has, each with its own watermark.

    holdfast run incremental_loads.py --conf '{"orders": 100}'
    holdfast run incremental_loads.py --conf '{"orders": 130}'

The second run loads the 30 new orders. Note what all ways have in common: they replace the output
of a failed attempt, so that a retry changes nothing. How they read the rows does not matter:
`incremental` has fixed the end of the load before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.sdk import Asset, dag, task
from holdfast.spark import incremental, portions, read_loads

LAKE = Path("lake").absolute()

saved = Asset("saved_orders")
inserted = Asset("inserted_orders")
merged = Asset("merged_orders")
daily = Asset("daily_orders")
several = Asset("several_sinks")
database = Asset("orders_in_a_database")
checked = Asset("checked_orders")
in_steps = Asset("orders_in_steps")


def source(spark: SparkSession, orders: int) -> DataFrame:
    """Return the orders of a shop, one a minute; a real source would be files or a table."""
    at = F.timestamp_seconds(F.lit(1_767_225_600) + F.col("id") * 60)
    return spark.range(orders).select("id", at.alias("at"), (F.col("id") % 7).alias("amount"))


@dag(schedule=None, params={"orders": 100}, max_active_tasks=2)
def incremental_loads() -> None:
    @task.pyspark(outlets=[saved])
    def save(spark: SparkSession, params: dict[str, Any], asset_store: Any) -> int:
        """Save a directory for each load, which appears as a whole."""
        new = incremental(source(spark, params["orders"]), asset_store, cursor="at")
        new.save(f"{LAKE}/saved")
        return read_loads(spark, asset_store, f"{LAKE}/saved").count()

    @task.pyspark(outlets=[inserted])
    def insert_with_sql(spark: SparkSession, params: dict[str, Any], asset_store: Any) -> int:
        """Run one statement, in which {new} stands for the rows."""
        new = incremental(source(spark, params["orders"]), asset_store, cursor="at")
        into = f"INSERT OVERWRITE DIRECTORY '{LAKE}/inserted/{new.name}' USING parquet"
        new.sql(into + " SELECT * FROM {new}")  # noqa: S608
        return spark.read.parquet(f"{LAKE}/inserted").count()

    @task.pyspark(outlets=[merged])
    def merge_through_a_view(spark: SparkSession, params: dict[str, Any], asset_store: Any) -> int:
        """Replace rows by key; with Delta or Iceberg this is one MERGE."""
        new = incremental(source(spark, params["orders"]), asset_store, cursor="at")
        target = LAKE / "merged"

        def merge(rows: DataFrame) -> None:
            if rows.isEmpty():
                return
            new.view("updates")
            versions = sorted(target.glob("*"))
            rest = "SELECT * FROM updates"
            if versions:
                spark.read.parquet(str(versions[-1])).createOrReplaceTempView("orders")
                rest += " UNION ALL SELECT orders.* FROM orders ANTI JOIN updates USING (id)"
            spark.sql(f"INSERT OVERWRITE DIRECTORY '{target}/{new.name}' USING parquet {rest}")

        new.write(merge)
        return spark.read.parquet(str(max(target.glob("*")))).count()

    @task.pyspark(outlets=[daily])
    def replace_partitions(spark: SparkSession, params: dict[str, Any], asset_store: Any) -> int:
        """Overwrite whole days: the last one is loaded again, and replaced."""
        days = source(spark, params["orders"]).withColumn("day", F.to_date("at"))
        new = incremental(days, asset_store, cursor="day", primary_key=())

        def replace(rows: DataFrame) -> None:
            writer = rows.write.partitionBy("day").mode("overwrite")
            writer.option("partitionOverwriteMode", "dynamic").parquet(f"{LAKE}/daily")

        new.write(replace)
        return spark.read.parquet(f"{LAKE}/daily").count()

    @task.pyspark(outlets=[several])
    def write_to_several_sinks(
        spark: SparkSession, params: dict[str, Any], asset_store: Any
    ) -> int:
        new = incremental(source(spark, params["orders"]), asset_store, cursor="at")

        def write(rows: DataFrame) -> None:
            rows.write.mode("overwrite").parquet(f"{LAKE}/several/rows/{new.name}")
            sums = rows.groupBy("amount").count()
            sums.write.mode("overwrite").json(f"{LAKE}/several/sums/{new.name}")

        new.write(write)
        counts = spark.read.json(f"{LAKE}/several/sums").agg(F.sum("count")).collect()
        return int(counts[0][0])

    @task.pyspark(outlets=[database])
    def write_to_a_database(spark: SparkSession, params: dict[str, Any], asset_store: Any) -> int:
        """Write a table for each load; a view of the database can combine them."""
        url = "jdbc:derby:memory:shop;create=true"
        new = incremental(source(spark, params["orders"]), asset_store, cursor="at")
        table = f"orders_{new.number}"
        options = {"url": url, "dbtable": table}
        new.write(
            lambda rows: rows.write.format("jdbc").options(**options).mode("overwrite").save()
        )
        return spark.read.format("jdbc").options(**options).load().count()

    @task.pyspark(outlets=[checked])
    def check_the_rows(spark: SparkSession, params: dict[str, Any], asset_store: Any) -> int:
        """Quarantine orders with an amount of zero."""
        new = incremental(
            source(spark, params["orders"]),
            asset_store,
            cursor="at",
            expect={"not_null": "id", "where": "amount > 0", "unique": "id"},
            quarantine=f"{LAKE}/quarantine",
        )
        return new.save(f"{LAKE}/checked").quarantined

    @task.pyspark(outlets=[in_steps])
    def load_in_steps(spark: SparkSession, params: dict[str, Any], asset_store: Any) -> int:
        """Load years of data in portions that each move the watermark."""
        orders = source(spark, params["orders"])
        for new in portions(orders, asset_store, cursor="at", max_rows=40):
            new.save(f"{LAKE}/steps")
        return spark.read.parquet(f"{LAKE}/steps").count()

    save()
    insert_with_sql()
    merge_through_a_view()
    replace_partitions()
    write_to_several_sinks()
    write_to_a_database()
    check_the_rows()
    load_in_steps()


incremental_loads()
