"""Mistakes in saving and reading loads: a clear error, and nothing moved or lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from loading import connection, frame
from pyspark.sql import SparkSession

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput, NotFound
from holdfast.spark.loads.directory_reader import read_loads
from holdfast.spark.loads.incremental import incremental
from holdfast.spark.paths import encoding_of_names

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
RANGE: dict[str, Any] = {"cursor": "at", "initial": 0, "end_value": 10}


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[AssetStore]:
    with connection(tmp_path) as opened:
        yield opened.asset_store(name="orders", declare=True)


@pytest.mark.parametrize("value", ["", "__HIVE_DEFAULT_PARTITION__", "x._COPYING_", "a\0b"])
def test_a_value_that_spark_loses_in_a_directory_name_is_refused(
    spark: SparkSession, orders: AssetStore, tmp_path: Path, value: str
) -> None:
    df = frame(spark, [(1, "a"), (2, value)], "at long, `the.part` string")
    load = incremental(df, orders, cursor="at")

    with pytest.raises(InvalidInput, match=r"`the.part` in partition_by has a value"):
        load.save(str(tmp_path / "out"), partition_by="the.part")

    assert orders.get("watermark") is None


def test_invalid_utf_8_in_a_directory_name_is_refused(
    spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    df = spark.sql("SELECT 1L AS at, CAST(X'61FF' AS STRING) AS part")
    load = incremental(df, orders, cursor="at")

    with pytest.raises(InvalidInput, match="`part` in partition_by has a value"):
        load.save(str(tmp_path / "out"), partition_by="part")


def test_unusual_values_are_kept_in_directory_names(
    spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    values = ["_COPYING_", "a ", "\n", "a/b=c%", "007", ".", "..", "ü", None]
    rows = list(enumerate(values, 1))
    df = frame(spark, rows, "at long, part string")

    incremental(df, orders, cursor="at").save(str(tmp_path / "out"), partition_by="part")

    found = read_loads(spark, orders, str(tmp_path / "out")).collect()
    assert sorted((row.at, row.part) for row in found) == rows


def test_the_encoding_of_names_is_known_of_each_spark(spark: SparkSession) -> None:
    assert encoding_of_names(spark) == "UTF-8"


@pytest.mark.full
@pytest.mark.parametrize("parts", [["a", "ü"], ["ü"]])
def test_directories_that_spark_does_not_see_are_named(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path, parts: list[str]
) -> None:
    df = frame(classic_spark, list(enumerate(parts)), "at long, part string")
    incremental(df, orders, cursor="at").save(str(tmp_path / "out"), partition_by="part")
    script = Path(__file__).parents[1] / "plain_locale.py"
    command = [sys.executable, str(script), str(tmp_path), str(tmp_path / "out")]
    environment = {**os.environ, "LC_ALL": "C", "PYSPARK_PYTHON": sys.executable}

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert "part=\\xfc/': the locale of its Java is not UTF-8" in done.stdout, done.stderr


def test_the_error_of_an_unchecked_save_names_the_null_cursor(
    spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    source = str(tmp_path / "source")
    frame(spark, [(1, NOON), (2, None)], "id long, at timestamp").write.parquet(source)
    load = incremental(spark.read.parquet(source), orders, cursor="at", until=NOON)

    with pytest.raises(InvalidInput, match="the cursor `at` is null in a row"):
        load.save(str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("/out*", {}, r"Spark treats `\*` in a path as a pattern"),
        ("/{a,b}", {}, r"Spark treats `{` in a path as a pattern"),
        ("/out", {"format": "parkuet"}, "Spark does not know the format `parkuet` here"),
        (
            "/out",
            {"partition_by": ["id", "at"]},
            "partition_by is id, at, and the columns are id, at",
        ),
        ("/out", {"partition_by": ["id", "id"]}, "partition_by is id, id"),
    ],
)
def test_the_error_for_an_invalid_path_or_option_names_it(
    spark: SparkSession,
    orders: AssetStore,
    tmp_path: Path,
    path: str,
    options: dict[str, Any],
    message: str,
) -> None:
    load = incremental(frame(spark, [(1, 1)]), orders, cursor="at")

    with pytest.raises(InvalidInput, match=message):
        load.save(f"{tmp_path}{path}", **options)

    assert orders.get("watermark") is None


def test_bytes_and_struct_fields_cannot_be_directory_names(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    df = classic_spark.sql("SELECT 1L AS at, X'00ff' AS bytes, struct(1 AS a) AS s")
    load = incremental(df, orders, cursor="at")

    with pytest.raises(InvalidInput, match="`bytes`, which is binary"):
        load.save(str(tmp_path / "out"), partition_by="bytes")
    with pytest.raises(InvalidInput, match="`s.a`, a field of a struct"):
        load.save(str(tmp_path / "out"), partition_by="s.a")


def test_the_error_for_an_unknown_scheme_names_it(spark: SparkSession, orders: AssetStore) -> None:
    load = incremental(frame(spark, [(1, 1)]), orders, cursor="at")

    with pytest.raises(InvalidInput, match="no file system for nowhere://lake/orders here"):
        load.save("nowhere://lake/orders")
    with pytest.raises(InvalidInput, match="no file system for nowhere://lake/orders here"):
        read_loads(spark, orders, "nowhere://lake/orders")


@pytest.mark.parametrize("statement", ["SELECT 1 FROM {new}; SELECT 2", "INSRT INTO a FROM {new}"])
def test_more_or_less_than_one_statement_is_refused(
    spark: SparkSession, orders: AssetStore, statement: str
) -> None:
    load = incremental(frame(spark, [(1, 1)]), orders, cursor="at")

    with pytest.raises(InvalidInput, match="the statement cannot be parsed: .*Syntax error"):
        load.sql(statement)


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_backfill_without_rows_is_read_as_no_rows(
    spark: SparkSession, orders: AssetStore, tmp_path: Path, format: str
) -> None:
    df = frame(spark, [(20, 20)])

    incremental(df, orders, **RANGE).save(str(tmp_path / "out"), format=format, partition_by="id")

    found = read_loads(spark, orders, str(tmp_path / "out"), format=format)
    assert (found.columns, found.collect()) == (["id", "at", "load"], [])
    with pytest.raises(NotFound, match="none of its directories belongs to a load"):
        read_loads(spark, orders, str(tmp_path), format=format)
