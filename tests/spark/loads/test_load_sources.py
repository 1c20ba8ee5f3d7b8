"""Sources whose rows depend on collation, on the columns that are read, or on the time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from loading import Table, connection, frame
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.functions import udf

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput, SourceChanged
from holdfast.spark.loads.incremental import incremental
from holdfast.spark.loads.source import Source, source_of


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[AssetStore]:
    with connection(tmp_path) as opened:
        yield opened.asset_store(name="orders", declare=True)


def derby(spark: SparkSession, rows: list[Any], schema: str, *url: str) -> Any:
    """Return functions for a table of a database in memory: one that reads it, and one that adds
    rows."""
    place = ";".join([f"jdbc:derby:memory:d{uuid4().hex}", "create=true", *url])
    options = {"url": place, "dbtable": "orders"}

    def add(rows: list[Any]) -> None:
        writer = frame(spark, rows, schema).write.format("jdbc").options(**options)
        if "code" in schema:
            writer = writer.option("createTableColumnTypes", "code varchar(20)")
        writer.mode("append").save()

    add(rows)
    return lambda: spark.read.format("jdbc").options(**options).load(), add


@pytest.mark.full
def test_the_collation_of_a_database_hides_no_row(
    classic_spark: SparkSession, orders: AssetStore
) -> None:
    english = ("territory=en_US", "collation=TERRITORY_BASED")
    read, add = derby(classic_spark, [("B-1", 1)], "code string, id int", *english)
    table = Table()
    table.load(incremental(read(), orders, cursor="code"))

    add([("B-2", 2), ("a-1", 3), ("b-0", 4)])
    assert read().where("code > 'B-1'").count() < 3, "this database compares as Spark does"
    table.load(incremental(read(), orders, cursor="code"))

    assert table.rows() == [("B-1", 1), ("B-2", 2), ("a-1", 3), ("b-0", 4)]


@pytest.mark.full
def test_a_database_query_has_a_range_wide_enough_for_any_time_zone(
    classic_spark: SparkSession, orders: AssetStore, capsys: pytest.CaptureFixture[str]
) -> None:
    read, _ = derby(classic_spark, [], "at timestamp, id int")

    rules: dict[str, Any] = {"cursor": "at", "materialize": False}
    first, last = "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"
    incremental(read(), orders, initial=first, end_value=last, **rules).df.explain()
    incremental(read(), orders, end_value=last, **rules).df.explain()
    incremental(read(), orders, until=last, **rules).df.explain()

    shown = capsys.readouterr().out
    assert "*GreaterThanOrEqual(at,2026-01-29 00:00:00.0)" in shown
    assert "*LessThanOrEqual(at,2026-02-03 00:00:00.0)" in shown
    assert "*Or(LessThanOrEqual(at,2026-02-03 00:00:00.0),IsNull(at))" in shown


TORN: dict[str, tuple[str, dict[str, str]]] = {
    "csv": ("1,1,a\n2,2,b\n3,1000\n", {"mode": "DROPMALFORMED"}),
    "json": (
        '{"id":1,"n":1,"v":"a"}\n{"id":2,"n":2,"v":"b"}\n{"id":3,"n":1000,"v":\n',
        {"mode": "DROPMALFORMED"},
    ),
}


@pytest.mark.parametrize("kind", TORN)
def test_a_torn_line_is_no_end(
    spark: SparkSession, orders: AssetStore, tmp_path: Path, kind: str
) -> None:
    text, options = TORN[kind]
    source = tmp_path / f"source.{kind}"
    source.write_text(text)
    df = spark.read.format(kind).options(**options).schema("id int, n int, v string")
    table = Table()

    loaded = table.load(incremental(df.load(str(source)), orders, cursor="n"))

    assert (loaded.rows, loaded.to) == (2, 2)
    assert table.rows() == [(1, 1, "a"), (2, 2, "b")]
    with pytest.raises(InvalidInput, match="parsed from text"):
        incremental(df.load(str(source)), orders, cursor="n", materialize=False)


def test_a_torn_document_in_a_column_is_no_end(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    (tmp_path / "lines.txt").write_text('{"n":1,"v":1}\n{"n":1000,"v":\n')
    lines = classic_spark.read.text(str(tmp_path / "lines.txt"))
    parsed = lines.select(f.from_json("value", "n int, v int").alias("r")).select("r.*")
    rows = sorted(tuple(row) for row in parsed.where("v IS NOT NULL").collect())
    table = Table()

    load = incremental(parsed.where("v IS NOT NULL"), orders, cursor="n", on_null="skip")
    table.load(load)

    assert source_of(parsed).is_parsed
    assert (load.end, table.rows()) == (rows[-1][0], rows)


def test_a_source_with_user_functions_or_ties_is_read_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = str(tmp_path / "files")
    frame(spark, [(1, 1)]).write.parquet(files)
    df = spark.read.parquet(files)
    name = f"stamp_{uuid4().hex[:8]}"
    spark.udf.register(name, udf(lambda value: value, "long").asNondeterministic())
    df.createOrReplaceTempView(f"view_{name}")

    changing = [
        df.selectExpr(f"{name}(id) AS id", "at"),
        df.select(f.call_function(name, "id").alias("id")),
        df.select(f.call_function("rand").alias("id")),
        df.where(f"id IN (SELECT id FROM view_{name} LIMIT 1)"),
        df.selectExpr("id", "row_number() OVER (PARTITION BY id ORDER BY at) AS n"),
        df.groupBy("id").agg(f.max_by("at", "id"), f.collect_list("at")),
        df.sampleBy("id", {1: 0.5}, seed=7),
        df.selectExpr("id", "java_method('java.lang.System', 'nanoTime') AS at"),
        df.select(f.reflect(f.lit("java.lang.System"), f.lit("nanoTime")).alias("at")),
    ]
    fixed = [
        df.where((f.col("id") > 0) & f.col("at").isNotNull()).select(f.upper(f.lit("a"))),
        df.selectExpr("cast(id AS decimal(10, 2)) AS id", "if(at IN (1, 2), 1, 2) AS at"),
        df.groupBy("id").agg(f.max("at"), f.count("*")),
    ]

    assert [source_of(one).is_fixed for one in changing] == [False] * len(changing)
    assert [source_of(one) for one in fixed] == [Source()] * len(fixed)


def test_a_table_behind_a_subquery_may_change_after_the_load_is_bounded(
    spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    files, name = str(tmp_path / "files"), f"allowed_{uuid4().hex[:8]}"
    frame(spark, [(0, 0), (1, 1), (2, 2)]).write.parquet(files)
    spark.createDataFrame([(1,), (2,)], "id long").write.saveAsTable(name)
    df = spark.read.parquet(files).where(f"id IN (SELECT id FROM {name})")
    load = incremental(df, orders, cursor="at")

    spark.sql(f"INSERT OVERWRITE {name} VALUES (0), (2)")
    table = Table()
    table.load(load)

    assert table.rows() == [(1, 1), (2, 2)]
    spark.sql(f"DROP TABLE {name}")


def test_a_saved_load_notices_that_its_source_has_grown(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    read, add = derby(classic_spark, [(1, 1), (2, 2)], "id long, at long")
    load = incremental(read(), orders, cursor="at", materialize=False)
    add([(3, 2)])

    with pytest.raises(SourceChanged, match="had 2 rows and has 3 now"):
        load.save(str(tmp_path / "out"))
    assert orders.entry("watermark") is None


def test_a_query_writes_nothing(spark: SparkSession, orders: AssetStore) -> None:
    def load() -> DataFrame | Any:
        return incremental(frame(spark, [(1, 1)]), orders, cursor="at")

    for query in ("SELECT * FROM {new}", "WITH a AS (SELECT * FROM {new}) SELECT * FROM a"):
        with pytest.raises(InvalidInput, match="the statement is a query"):
            load().sql(query)
    assert orders.entry("watermark") is None
