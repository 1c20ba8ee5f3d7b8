"""DataFrames for bulk writes."""

from __future__ import annotations

import sqlalchemy as sa
from pyspark.sql import DataFrame, SparkSession

ROWS = 40


def task_rows(spark: SparkSession) -> DataFrame:
    """Return ten keys for each of four task instances of an unknown run."""
    return spark.range(0, ROWS, numPartitions=2).selectExpr(
        "'imported' AS dag_id",
        "'first' AS run_id",
        "'load' AS task_id",
        "int(id % 4) AS map_index",
        "concat('key ', id) AS key",
        "concat('{ \"n\" : ', id, ' }') AS value",
        "timestamp'2999-01-01 00:00:00' AS expires_at",
    )


def asset_rows(spark: SparkSession) -> DataFrame:
    return spark.range(3).selectExpr(
        "'orders' AS asset", "concat('key ', id) AS key", "string(id) AS value"
    )


def save(rows: DataFrame, table: str = "task_store") -> None:
    rows.write.format("holdfast").option("table", table).mode("append").save()


def staged(url: str) -> int:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT count(*) FROM hf_load_entry").scalar_one()
    engine.dispose()
    return int(found)
