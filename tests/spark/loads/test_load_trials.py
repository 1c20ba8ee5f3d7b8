"""Regression tests of loads, from trials by users."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loading import connection, frame
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from holdfast.accessor.asset_store import AssetStore
from holdfast.spark.loads.incremental import Load, incremental


@pytest.fixture
def asset(tmp_path: Path) -> Iterator[AssetStore]:
    with connection(tmp_path) as opened:
        yield opened.asset_store(name="orders", declare=True)


def numbers(spark: SparkSession, count: int = 20) -> DataFrame:
    return spark.range(0, count, 1, 4).selectExpr("id", "id AS c")


def overwrite(df: DataFrame, directory: str) -> None:
    df.write.mode("overwrite").parquet(directory)


def insert(spark: SparkSession, df: DataFrame, directory: str) -> None:
    df.createOrReplaceTempView("updates")
    spark.sql(f"INSERT OVERWRITE DIRECTORY '{directory}' USING parquet SELECT * FROM updates")


Write = Callable[[SparkSession, DataFrame, str], Any]


def is_empty_then_sql(spark: SparkSession, df: DataFrame, directory: str) -> None:
    if not df.isEmpty():
        insert(spark, df, directory)


def count_some_then_sql(spark: SparkSession, df: DataFrame, directory: str) -> None:
    df.limit(1).count()
    insert(spark, df, directory)


def sql_then_first(spark: SparkSession, df: DataFrame, directory: str) -> None:
    insert(spark, df, directory)
    df.first()


def through_sql_alone(spark: SparkSession, df: DataFrame, directory: str) -> None:
    overwrite(spark.sql("SELECT * FROM {d}", d=df), directory)


def through_the_view(spark: SparkSession, df: DataFrame, directory: str) -> None:
    df.createOrReplaceTempView("updates")
    overwrite(spark.table("updates"), directory)


def with_exists(spark: SparkSession, df: DataFrame, directory: str) -> None:
    df.createOrReplaceTempView("nv")
    query = "SELECT * FROM nv WHERE EXISTS (SELECT 1 FROM nv WHERE id >= 0)"
    overwrite(spark.sql(query), directory)


def with_its_first_row(spark: SparkSession, df: DataFrame, directory: str) -> None:
    first = df.limit(1).select(f.col("id").alias("first"))
    overwrite(df.crossJoin(first).drop("first"), directory)


def checkpointed_lazily(spark: SparkSession, df: DataFrame, directory: str) -> None:
    overwrite(df.localCheckpoint(eager=False), directory)


@pytest.mark.parametrize(
    "write",
    [
        is_empty_then_sql,
        count_some_then_sql,
        sql_then_first,
        insert,
        through_sql_alone,
        through_the_view,
        with_exists,
        with_its_first_row,
        checkpointed_lazily,
    ],
)
def test_each_row_is_written_once_and_the_next_load_has_nothing(
    spark: SparkSession, asset: AssetStore, tmp_path: Path, write: Write
) -> None:
    def load() -> Any:
        new = incremental(numbers(spark), asset, cursor="c")
        return new.write(lambda df: write(spark, df, str(tmp_path / "out" / new.name)))

    first, second = load(), load()

    assert (first.rows, first.to) == (20, 19)
    assert (second.rows, second.from_) == (0, 19)
    written = [row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert sorted(written) == list(range(20))


@pytest.mark.parametrize(
    "write",
    [
        lambda df: df.limit(3).collect(),
        lambda df: df.head(3),
        lambda df: df.where("false").collect(),
        lambda df: df.join(df.limit(0), "id").collect(),
        lambda df: None,
    ],
)
def test_rows_that_the_function_leaves_out_count_as_loaded(
    spark: SparkSession, asset: AssetStore, write: Callable[[DataFrame], Any]
) -> None:
    loaded = incremental(numbers(spark), asset, cursor="c").write(write)

    assert (loaded.rows, loaded.to) == (20, 19)
    assert incremental(numbers(spark), asset, cursor="c").rows == 0


@pytest.mark.full
def test_two_keys_of_an_asset_write_to_two_directories(
    classic_spark: SparkSession, asset: AssetStore, tmp_path: Path
) -> None:
    target = str(tmp_path / "out")
    for key, first in (("watermark", 0), ("us", 10), ("eu", 20)):
        df = classic_spark.range(first, first + 5).selectExpr("id", "id AS c")
        new = incremental(df, asset, cursor="c", key=key)
        new.write(lambda rows, new=new: overwrite(rows, f"{target}/{new.name}"))  # type: ignore[misc]

    found = classic_spark.read.parquet(target)
    assert sorted(row.id for row in found.collect()) == [*range(5), *range(10, 15), *range(20, 25)]


@pytest.mark.full
def test_the_column_of_a_load_has_one_type_and_a_backfill_says_its_range(
    classic_spark: SparkSession, asset: AssetStore, tmp_path: Path
) -> None:
    target, kinds = str(tmp_path / "out"), set()

    def load(count: int, **rules: Any) -> Load:
        new = incremental(numbers(classic_spark, count), asset, cursor="c", **rules)
        new.save(target)
        schema = classic_spark.read.parquet(target).schema
        kinds.add(schema["load"].dataType.simpleString())
        return new

    load(3)
    load(6)
    backfill = load(9, initial=6, end_value=9)

    assert kinds == {"string"}
    assert backfill.name == "load=orders.watermark.backfill.c.6.9"


MISTAKES: dict[str, Callable[[SparkSession, DataFrame], Any]] = {
    "select": lambda spark, df: df.select("amuont").collect(),
    "where": lambda spark, df: df.where("amuont > 1").collect(),
    "join": lambda spark, df: df.join(spark.range(3), "kye").collect(),
    "insert": lambda spark, df: df.write.insertInto("no_such_table"),
    "table": lambda spark, df: df.writeTo("no_such_table").append(),
    "format": lambda spark, df: df.write.format("no_such_format").save("somewhere"),
    "cast": lambda spark, df: df.select(f.expr("cast(concat('a', id) AS int)")).collect(),
    "sum": lambda spark, df: df.groupBy("id").agg(f.sum("amuont")).collect(),
    "union": lambda spark, df: df.union(spark.sql("SELECT array(1) a, 2 b")).collect(),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("until", [None, "2026-01-31T00:00:00Z"])
def test_an_error_in_the_function_is_raised_unchanged(
    spark: SparkSession, asset: AssetStore, mistake: str, until: str | None
) -> None:
    df = spark.range(3).selectExpr("id", "timestamp_seconds(id) AS at")
    load = incremental(df, asset, cursor="at", until=until)

    with pytest.raises(Exception) as raised:  # noqa: PT011
        load.write(lambda new: MISTAKES[mistake](spark, new))

    assert isinstance(raised.value, PySparkException | Py4JJavaError)
    assert asset.entry("watermark") is None


@pytest.mark.full
def test_a_live_source_has_the_same_rows_for_each_of_two_sinks(
    classic_spark: SparkSession, asset: AssetStore, tmp_path: Path
) -> None:
    options = {"url": "jdbc:derby:memory:live;create=true", "dbtable": "live"}

    def arrive(*rows: tuple[int, int]) -> None:
        df = frame(classic_spark, list(rows), "id long, c long")
        df.write.format("jdbc").options(**options).mode("append").save()

    def write(df: DataFrame) -> None:
        overwrite(df, str(tmp_path / "one"))
        arrive((3, 3), (4, 2))
        overwrite(df, str(tmp_path / "two"))

    arrive((1, 1), (2, 2))
    table = classic_spark.read.format("jdbc").options(**options).load()
    rules: dict[str, Any] = {"cursor": "c", "lag": 5, "primary_key": "id"}
    incremental(table, asset, **rules).write(write)

    one, two = (classic_spark.read.parquet(str(tmp_path / name)) for name in ("one", "two"))
    assert sorted(one.collect()) == sorted(two.collect()) == [(1, 1), (2, 2)]
    later = incremental(table, asset, **rules)
    assert sorted(row.id for row in later.df.collect()) == [3, 4]


def test_the_repr_of_a_load_describes_it(classic_spark: SparkSession, asset: AssetStore) -> None:
    load = incremental(numbers(classic_spark), asset, cursor="C")

    told = "<Load load=orders.watermark.000000000000: after None, up to 19, 20 rows>"
    assert repr(load) == told
