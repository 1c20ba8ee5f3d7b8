"""Keys of any type: different keys have different texts, and widened ones the same."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from loading import Table, connection, frame
from pyspark.sql import SparkSession
from pyspark.sql.types import CharType, DataType, StringType, StructType, VarcharType

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput, InvalidType
from holdfast.spark.loads.column_lookup import Columns
from holdfast.spark.loads.incremental import incremental
from holdfast.spark.loads.row_identity import Identity, kind_of, text_of


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[AssetStore]:
    with connection(tmp_path) as opened:
        yield opened.asset_store(name="orders", declare=True)


def texts(spark: SparkSession, kind: str, values: list[Any]) -> list[str]:
    schema = f"n int, k {kind}"
    df = spark.createDataFrame(list(enumerate(values)), schema)
    found = df.selectExpr("n", f"{text_of('k', df.schema['k'].dataType)} AS text").orderBy("n")
    return [row.text for row in found.collect()]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("struct<a:string,b:string>", [("x", None), (None, "x"), (None, None), None, ("N", "N")]),
        ("struct<a:string,b:string>", [("1:a", "b"), ("1", "ab"), ("a);(b", ""), ("a", ");(b")]),
        ("array<int>", [[None, 1], [1], [1, None], [None, None, 1], [], None, [11], [1, 1]]),
        ("array<array<string>>", [[["a"], ["b"]], [["a", "b"]], [["a;b"]], [[], None], [None, []]]),
        ("map<string,int>", [{"a": 1}, {"a": None}, {}, None, {"a": 1, "b": 2}, {"a=1;b": 2}]),
        ("double", [0.1, 0.2, None, float("nan"), float("inf"), -1.5, 1e300]),
        ("binary", [b"", b"\x00", b"\x00\x00", None, b"N", "é".encode()]),
        ("string", ["", "N", None, "1:N", "a", "A", "å"]),
        ("decimal(38,18)", [Decimal(1), Decimal("1E-18"), Decimal("-1E-18"), None, Decimal(1000)]),
        ("array<decimal(10,0)>", [[Decimal(1), Decimal(234)], [Decimal(1234)]]),
        ("boolean", [True, False, None]),
        ("date", [dt.date(1, 1, 1), dt.date(2026, 1, 31), None]),
    ],
)
def test_different_keys_have_different_texts(
    local_spark: SparkSession, kind: str, values: list[Any]
) -> None:
    found = texts(local_spark, kind, values)

    assert None not in found
    assert len(set(found)) == len(values)


@pytest.mark.parametrize(
    ("kinds", "value"),
    [
        (("tinyint", "smallint", "int", "bigint"), 7),
        (("float", "double"), 0.5),
        (("decimal(9,2)", "decimal(38,2)"), Decimal("1234567.50")),
        (("struct<a:int,b:array<int>>", "struct<a:bigint,b:array<bigint>>"), (1, [2, None])),
        (("map<int,int>", "map<bigint,bigint>"), {1: 2, 3: 4}),
    ],
)
def test_a_key_that_is_widened_stays_the_same(
    local_spark: SparkSession, kinds: tuple[str, ...], value: Any
) -> None:
    schemas = [StructType.fromDDL(f"k {kind}") for kind in kinds]

    assert len({texts(local_spark, kind, [value])[0] for kind in kinds}) == 1
    assert len({kind_of(schema["k"].dataType) for schema in schemas}) == 1


def test_zero_has_one_sign_and_maps_have_no_order(local_spark: SparkSession) -> None:
    assert len(set(texts(local_spark, "double", [0.0, -0.0]))) == 1
    maps = [{"a": 1, "b": 2}, {"b": 2, "a": 1}]
    assert len(set(texts(local_spark, "map<string,int>", maps))) == 1


@pytest.mark.full
@pytest.mark.parametrize(
    ("schema", "keys"),
    [
        ("k struct<a:string,b:string>", [("x", None), (None, "x"), None]),
        ("k array<int>", [[None, 1], [1], [1, None]]),
        ("k map<string,int>", [{"a": 1}, {"a": None}, {}]),
        ("k float", [float("nan"), 0.5, None]),
        ("k binary", [b"\x00", b"", None]),
    ],
)
def test_rows_of_the_same_time_are_distinguished_by_keys_of_any_type(
    local_spark: SparkSession, orders: AssetStore, schema: str, keys: list[Any]
) -> None:
    """Add one key with each load; every row is loaded once, duplicates included."""
    table = Table()
    for number, _ in enumerate(keys, start=1):
        rows = [(key, 7) for key in keys[:number] * 2]
        df = frame(local_spark, rows, f"{schema}, at long")
        loaded = table.load(incremental(df, orders, cursor="at", primary_key="k"))
        assert loaded.rows == 1

    assert len([row for part in table.parts.values() for row in part]) == len(keys)


@pytest.mark.full
def test_a_source_that_widens_its_key_loses_no_late_row(
    local_spark: SparkSession, orders: AssetStore
) -> None:
    rules = {"cursor": "c", "primary_key": "id", "lag": 100}
    queries = [
        "SELECT 1 id, 1000L c",
        "SELECT 1 id, 1000L c UNION ALL SELECT 2, 950L",
        "SELECT 1L id, 1000L c UNION ALL SELECT 2L, 950L UNION ALL SELECT 3L, 960L",
    ]
    for query in queries:
        load = incremental(local_spark.sql(query), orders, **rules)
        assert load.write(lambda new: new.collect()).rows == 1

    assert all(one.version > other.version for one, other in pairwise(orders.history("watermark")))


@pytest.mark.full
def test_nested_columns_are_cursor_and_key(local_spark: SparkSession, orders: AssetStore) -> None:
    schema = "event struct<At:long, who:struct<id:int>>, note string"
    rows = [((5, (1,)), "a"), ((5, (1,)), "b"), ((6, (2,)), "c")]
    df = frame(local_spark, rows, schema)

    load = incremental(df, orders, cursor="event.at", primary_key="EVENT.who.id")

    assert load.write(lambda new: new.collect()).rows == 2
    assert orders.get("watermark")["cursor"] == "event.At"
    later = frame(local_spark, [*rows, ((6, (3,)), "d")], schema)
    again = incremental(later, orders, cursor="event.At", primary_key="event.who.id")
    assert [row.note for row in again.df.collect()] == ["d"]


@pytest.mark.parametrize("kind", ["variant", "string collate UNICODE_CI", "interval day"])
def test_a_key_without_one_form_is_refused(
    local_spark: SparkSession, orders: AssetStore, kind: str
) -> None:
    df = local_spark.createDataFrame([], f"k {kind}, at long")

    with pytest.raises(InvalidType, match="the primary key `k` has the type"):
        incremental(df, orders, cursor="at", primary_key="k")


def test_the_hash_does_not_depend_on_settings_of_the_session(local_spark: SparkSession) -> None:
    df = local_spark.sql("SELECT timestamp_micros(1) t, 0.0000001BD d, date '2026-01-31' e")
    columns = Columns.of(df)
    identity = Identity(tuple(columns.find(name, "it") for name in df.columns))

    def hashed(zone: str, ansi: str) -> int:
        local_spark.conf.set("spark.sql.session.timeZone", zone)
        local_spark.conf.set("spark.sql.ansi.enabled", ansi)
        return int(df.selectExpr(f"{identity.hash} AS h").first()["h"])  # type: ignore[index]

    try:
        found = {hashed(zone, ansi) for zone in ("UTC", "Asia/Tokyo") for ansi in ("true", "false")}
    finally:
        local_spark.conf.set("spark.sql.session.timeZone", "UTC")
        local_spark.conf.unset("spark.sql.ansi.enabled")
    assert len(found) == 1


@pytest.mark.full
def test_a_struct_whose_fields_change_places_is_another_key(
    classic_spark: SparkSession, orders: AssetStore
) -> None:
    first = frame(classic_spark, [(("x", "y"), 1)], "k struct<a:string,b:string>, at long")
    incremental(first, orders, cursor="at", primary_key="k").write(lambda new: None)
    second = frame(classic_spark, [(("x", "y"), 1)], "k struct<b:string,a:string>, at long")

    with pytest.raises(InvalidInput, match="the primary key is now"):
        incremental(second, orders, cursor="at", primary_key="k")


@pytest.mark.full
def test_names_that_differ_in_case_are_different_keys_where_spark_says_so(
    classic_spark: SparkSession, orders: AssetStore
) -> None:
    classic_spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        df = frame(classic_spark, [(1, 2, 1)], "id long, ID long, at long")
        incremental(df, orders, cursor="at", primary_key="id").write(lambda new: None)
        with pytest.raises(InvalidInput, match="the primary key is now"):
            incremental(df, orders, cursor="at", primary_key="ID")
        both = incremental(df, orders, cursor="at", primary_key=["id", "ID"], key="both")
        both.write(lambda new: None)
        assert set(orders.get("both")["seen"]["columns"]) == {"at", "id", "ID"}
    finally:
        classic_spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize("kind", [VarcharType(9), CharType(9), StringType()])
def test_text_of_limited_length_ends_where_it_ends(kind: DataType) -> None:
    assert text_of("k", kind) == text_of("k", StringType())
    assert kind_of(kind) == "string"


@pytest.mark.full
def test_a_column_with_a_reserved_name_is_kept(
    classic_spark: SparkSession, orders: AssetStore
) -> None:
    df = frame(
        classic_spark,
        [({"a": 1}, "mine", 1)],
        "k map<string,int>, Holdfast_Identity string, at int",
    )

    load = incremental(df, orders, cursor="at", primary_key="k")

    assert [row["Holdfast_Identity"] for row in load.df.collect()] == ["mine"]
