"""Rows that do not fit a table are refused before Spark starts, and the others keep every value."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from loading import connection
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from holdfast.accessor.task_store import TaskStore
from holdfast.errors import InvalidInput, InvalidType, TableChanged
from holdfast.spark import append, delta
from holdfast.spark.lake import files, task_append
from holdfast.spark.lake.schema import fit_of


@pytest.fixture
def task_store(tmp_path: Path) -> Iterator[TaskStore]:
    with connection(tmp_path) as opened:
        yield opened.task_store("dag", "run", "task")


def columns(**kinds: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


TABLE = columns(id=LongType(), at=TimestampType(), price=DecimalType(10, 2), name=StringType())


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ({"at": None}, r"`at` \(timestamp\) of the table is missing"),
        ({"extra": IntegerType()}, r"`extra` \(int\) is not in the table"),
        ({"name": None, "title": StringType()}, r"is missing \(renamed to `title`\?\)"),
        ({"id": DoubleType()}, "`id` is double, and bigint in the table"),
        ({"at": TimestampNTZType()}, "`at` is timestamp_ntz, and timestamp in the table"),
        ({"price": DecimalType(12, 2)}, r"decimal\(12,2\), and decimal\(10,2\)"),
        ({"price": DecimalType(10, 3)}, r"decimal\(10,3\), and decimal\(10,2\)"),
        ({"name": ArrayType(StringType())}, "array<string>, and string"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: dict[str, Any], problem: str) -> None:
    kinds = {field.name: field.dataType for field in TABLE} | rows
    given = columns(**{name: kind for name, kind in kinds.items() if kind is not None})

    with pytest.raises(InvalidInput, match=problem):
        fit_of(given, TABLE, "the table t", evolves=False)


@pytest.mark.parametrize(
    ("rows", "table", "problem"),
    [
        (LongType(), IntegerType(), "bigint, and int"),
        (ArrayType(LongType()), ArrayType(IntegerType()), r"`v\[\]` is bigint"),
        (ArrayType(LongType()), ArrayType(LongType(), False), r"`v\[\]` may be null"),
        (columns(a=LongType()), columns(b=LongType()), "has the fields a, and in the table b"),
        (columns(a=LongType()), columns(a=StringType()), r"`v\.a` is bigint, and string"),
        (
            MapType(StringType(), LongType()),
            MapType(StringType(), IntegerType()),
            r"`v\.value` is bigint",
        ),
    ],
)
def test_nested_values_that_do_not_fit_are_refused(rows: Any, table: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        fit_of(columns(v=rows), columns(v=table), "the table t", evolves=False)


def test_wider_columns_take_narrower_values() -> None:
    given = columns(ID=IntegerType(), price=DecimalType(8, 1))
    fit = fit_of(given, columns(id=LongType(), price=DecimalType(10, 2)), "t", evolves=False)

    assert fit.matched == {"id": "ID", "price": "price"}


def values(spark: SparkSession) -> DataFrame:
    return spark.sql(
        """
        SELECT id, timestamp'1969-12-31 23:59:59.999999' + make_interval(0,0,0,id) AS at,
               timestamp_ntz'2026-03-29 02:30:00.123456' AS local, date'1969-12-31' AS day,
               CAST('99999999.99' AS decimal(10,2)) AS price,
               CAST('-12345678901234567890123456789.123456789' AS decimal(38,9)) AS huge,
               CASE WHEN id = 1 THEN NULL ELSE 'a/b ü' END AS part, array(1, NULL, id) AS list,
               named_struct('x', id, 'y', map('k', 1.5D)) AS nested, X'00FF' AS bytes,
               double('NaN') AS nan, true AS flag, CAST(id AS tinyint) AS tiny
        FROM range(3)
        """
    )


@pytest.mark.parametrize("arrow", [False, True])
def test_every_value_is_read_back(
    spark: SparkSession,
    task_store: TaskStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arrow: bool,
) -> None:
    if arrow:
        monkeypatch.setattr(files, "renames", lambda spark, path: False)
    table = delta(tmp_path / "t", create=True, partition_by=["part", "day", "at"])

    assert append(values(spark), table, task_store).rows == 3

    rows = DeltaTable(tmp_path / "t").to_pyarrow_table().sort_by("id").to_pylist()
    assert [row["part"] for row in rows] == ["a/b ü", None, "a/b ü"]
    assert {row["day"] for row in rows} == {date(1969, 12, 31)}
    assert rows[0]["at"] == datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)
    assert rows[0]["local"].isoformat() == "2026-03-29T02:30:00.123456"
    assert rows[0]["price"] == Decimal("99999999.99")
    assert rows[0]["huge"] == Decimal("-12345678901234567890123456789.123456789")
    assert rows[1]["list"] == [1, None, 1]
    assert rows[2]["nested"] == {"x": 2, "y": [("k", 1.5)]}
    assert (rows[0]["bytes"], rows[0]["flag"], rows[2]["tiny"]) == (b"\0\xff", True, 2)
    assert rows[0]["nan"] != rows[0]["nan"]


def test_an_empty_text_cannot_be_a_partition(
    spark: SparkSession, task_store: TaskStore, tmp_path: Path
) -> None:
    df = spark.createDataFrame([(1, "")], "id long, part string")

    with pytest.raises(InvalidInput, match="empty text in a partition column"):
        append(df, delta(tmp_path / "t", create=True, partition_by="part"), task_store)


def test_new_columns_are_added_only_on_request(
    spark: SparkSession, task_store: TaskStore, tmp_path: Path
) -> None:
    append(spark.sql("SELECT 1L AS id"), delta(tmp_path / "t", create=True), task_store)
    wider = spark.sql("SELECT 2L AS id, 'x' AS name")

    with pytest.raises(InvalidInput, match="is not in the table") as caught:
        append(wider, delta(tmp_path / "t"), task_store, key="second")
    assert "evolve=True" in caught.value.hint
    append(wider, delta(tmp_path / "t", evolve=True), task_store, key="second")

    rows = DeltaTable(tmp_path / "t").to_pyarrow_table().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "name": None}, {"id": 2, "name": "x"}]


def test_a_null_where_the_table_has_none_is_refused(
    spark: SparkSession, task_store: TaskStore, tmp_path: Path
) -> None:
    schema = Schema.from_arrow(pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    DeltaTable.create(tmp_path / "t", schema)

    with pytest.raises(InvalidInput, match="`id` is null in a row"):
        append(spark.sql("SELECT NULL::long AS id"), delta(tmp_path / "t"), task_store)
    assert append(spark.range(3), delta(tmp_path / "t"), task_store).rows == 3


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT NULL AS nothing", "`nothing` is void"),
        ("SELECT INTERVAL 1 DAY AS pause", "`pause` is interval"),
        ("SELECT 1 AS `a b`", "the name `a b` has a character"),
    ],
)
def test_types_that_tables_do_not_have_are_refused(
    spark: SparkSession, task_store: TaskStore, tmp_path: Path, query: str, problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        append(spark.sql(query), delta(tmp_path / "t", create=True), task_store)
    assert not (tmp_path / "t").exists()


def test_a_dataframe_is_appended_once_per_task_instance(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = delta(tmp_path / "t", create=True)
    with connection(tmp_path) as opened:
        for run in ("monday", "tuesday"):
            task = opened.task_store("dag", run, "task")
            with pytest.raises(RuntimeError), task.attempt() as attempt:
                append(spark.range(3), table, attempt.task_store)
                raise RuntimeError("the attempt fails after its append")
            with task.attempt() as attempt:
                assert append(spark.range(9), table, attempt.task_store).is_adopted
                assert append(spark.range(9), table, attempt.task_store, key="b").rows == 9
                with pytest.raises(InvalidInput, match="already appended as `b`"):
                    append(spark.range(9), table, attempt.task_store, key="b")

    assert DeltaTable(tmp_path / "t").to_pyarrow_table().num_rows == 24


def test_a_lost_record_of_an_append_is_noticed(
    spark: SparkSession, task_store: TaskStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = delta(tmp_path / "t", create=True)
    append(spark.range(3), table, task_store)
    task_store.clear()

    with pytest.raises(TableChanged, match="does not know as succeeded"):
        append(spark.range(3), table, task_store)
    append(spark.range(3), table, task_store, key="other")
    monkeypatch.setattr(task_append, "PROCESS", "that of a retry")
    with pytest.raises(InvalidInput, match="may have appended as `other` to the Delta table"):
        append(spark.range(3), delta(tmp_path / "u", create=True), task_store, key="other")


def test_arguments_of_other_types_are_refused(task_store: TaskStore, spark: SparkSession) -> None:
    table = delta("/nowhere")
    for arguments in ((1, table, task_store), (spark.range(1), "/t", task_store)):
        with pytest.raises(InvalidType):
            append(*arguments)
    with pytest.raises(InvalidType):
        append(spark.range(1), table, {})  # type: ignore[arg-type]
    for uri in (5, b"x"):
        with pytest.raises(InvalidType):
            delta(uri)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        delta(" ")
