"""Lake tables that their libraries write, as three readers see them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import StringType
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from readers import by_library, by_spark, in_order, read_by_all

from holdfast.errors import HoldfastError, InvalidInput, InvalidType
from holdfast.spark.lake.delta import delta
from holdfast.spark.lake.iceberg import IcebergTable, iceberg
from holdfast.spark.lake.table_reader import read_table

MOMENT = datetime(1960, 1, 1, 1, 2, 3, 4, tzinfo=UTC)
COLUMNS: dict[str, Any] = {
    "id": pa.array([1, 2, 3], pa.int64()),
    "small": pa.array([1, None, -5], pa.int32()),
    "text": ["a/b %c~ü", None, "it's"],
    "day": pa.array([date(1960, 1, 1), None, date(2020, 1, 2)]),
    "at": pa.array([MOMENT, None, None], pa.timestamp("us", "UTC")),
    "local": pa.array([MOMENT.replace(tzinfo=None), None, None], pa.timestamp("us")),
    "amount": pa.array([Decimal("1.50"), None, Decimal("7.25")], pa.decimal128(20, 2)),
    "yes": [True, None, False],
    "real": [1.5, None, float("inf")],
    "bytes": pa.array([b"\x00\xff", None, b""], pa.binary()),
    "list": pa.array([[1, None], [], None], pa.list_(pa.int64())),
    "pair": pa.array(
        [{"a": 1, "b": [{"c": "x"}]}, None, {"a": None, "b": []}],
        pa.struct({"a": pa.int64(), "b": pa.list_(pa.struct({"c": pa.string()}))}),
    ),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
}
PARTITIONS = ["text", "day", "at", "amount", "yes"]


def iceberg_in(directory: Path) -> IcebergTable:
    (directory / "warehouse").mkdir()
    return iceberg(
        "sales.orders",
        catalog={
            "type": "sql",
            "uri": f"sqlite:///{directory}/catalog.db",
            "warehouse": f"file://{directory}/warehouse",
        },
    )


@pytest.mark.parametrize("partition_by", [[], PARTITIONS])
def test_a_delta_table_of_all_types_is_read_alike(
    local_spark: SparkSession, tmp_path: Path, partition_by: list[str]
) -> None:
    rows = pa.table(COLUMNS)
    deltalake.write_deltalake(tmp_path / "all", rows, partition_by=partition_by)
    found = read_by_all(local_spark, delta(tmp_path / "all"))
    assert found == in_order(rows.select([*found[0]]))


@pytest.mark.parametrize("partition_by", [[], PARTITIONS])
def test_an_iceberg_table_of_all_types_is_read_alike(
    local_spark: SparkSession, tmp_path: Path, partition_by: list[str]
) -> None:
    rows = pa.table(COLUMNS)
    table = iceberg_in(tmp_path)
    table.catalog().create_namespace("sales")
    made = table.catalog().create_table("sales.orders", rows.schema)
    with made.update_spec() as update:
        for name in partition_by:
            update.add_identity(name)
    made.append(rows)
    assert read_by_all(local_spark, table) == in_order(rows)


def test_a_table_is_read_at_a_version(local_spark: SparkSession, tmp_path: Path) -> None:
    for id in (1, 2, 3):
        deltalake.write_deltalake(tmp_path / "ids", pa.table({"id": [id]}), mode="append")
    table = delta(tmp_path / "ids")
    assert in_order(by_spark(local_spark, table, 1)) == [{"id": 1}, {"id": 2}]
    deltalake.DeltaTable(tmp_path / "ids").delete("id = 1")
    assert in_order(by_spark(local_spark, table)) == [{"id": 2}, {"id": 3}]
    assert in_order(by_spark(local_spark, table, 2)) == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_columns_that_were_added_are_null_in_older_files(
    local_spark: SparkSession, tmp_path: Path
) -> None:
    where = tmp_path / "wider"
    deltalake.write_deltalake(where, pa.table({"id": [1]}))
    wider = pa.table({"id": [2], "more": ["x"]})
    deltalake.write_deltalake(where, wider, mode="append", schema_mode="merge")
    expected = [{"id": 1, "more": None}, {"id": 2, "more": "x"}]
    assert read_by_all(local_spark, delta(where)) == expected


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_read_by_their_names_in_the_files(
    local_spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    where = tmp_path / "mapped"
    rows = pa.table({"id": [1, 2], "odd": ["1", "0"], "pair": [{"a": 1}, None]})
    deltalake.DeltaTable.create(
        where,
        deltalake.Schema.from_arrow(rows.schema),
        configuration={"delta.columnMapping.mode": mode},
        partition_by=["odd"],
    )
    deltalake.write_deltalake(where, rows, mode="append")
    found = by_spark(local_spark, delta(where))
    assert found.schema.names == ["id", "odd", "pair"]
    assert in_order(found) == in_order(rows)


def test_renamed_columns_of_an_iceberg_table_are_read_by_their_ids(
    local_spark: SparkSession, tmp_path: Path
) -> None:
    table = iceberg_in(tmp_path)
    table.catalog().create_namespace("sales")
    made = table.catalog().create_table("sales.orders", pa.table({"id": [1], "old": ["x"]}).schema)
    made.append(pa.table({"id": [1], "old": ["x"]}))
    with made.update_schema() as update:
        update.rename_column("old", "new")
    with made.update_schema() as update:
        update.add_column("old", StringType())
    made.append(pa.table({"id": [2], "new": ["y"], "old": ["z"]}))
    expected = [{"id": 1, "new": "x", "old": None}, {"id": 2, "new": "y", "old": "z"}]
    assert read_by_all(local_spark, table) == expected
    assert in_order(by_library(table)) == expected


def test_an_empty_table_has_its_columns(local_spark: SparkSession, tmp_path: Path) -> None:
    table = iceberg_in(tmp_path)
    table.catalog().create_namespace("sales")
    table.create(StructType().add("id", "long"), ())
    assert read_table(local_spark, table).schema.simpleString() == "struct<id:bigint>"
    assert read_table(local_spark, table).collect() == []


def test_a_table_that_does_not_exist_is_an_error(local_spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        read_table(local_spark, delta(tmp_path / "none"))


@pytest.mark.parametrize("version", ["1", 1.0, True])
def test_a_version_that_is_no_number_is_an_error(
    local_spark: SparkSession, tmp_path: Path, version: Any
) -> None:
    with pytest.raises(InvalidType, match="version is"):
        read_table(local_spark, delta(tmp_path), version)


def test_a_file_that_was_deleted_is_named(local_spark: SparkSession, tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "ids", pa.table({"id": [1]}))
    rows = read_table(local_spark, delta(tmp_path / "ids"))
    [file] = (tmp_path / "ids").glob("*.parquet")
    file.unlink()
    with pytest.raises(Exception, match=f"{file.name}"):
        rows.collect()


def test_a_feature_that_the_library_does_not_know_is_refused(
    local_spark: SparkSession, tmp_path: Path
) -> None:
    deltalake.write_deltalake(tmp_path / "ids", pa.table({"id": [1]}))
    commit = tmp_path / "ids" / "_delta_log" / f"{1:020}.json"
    features = '"readerFeatures":["odd"],"writerFeatures":["odd"]'
    commit.write_text('{"protocol":{"minReaderVersion":3,"minWriterVersion":7,' + features + "}}\n")
    with pytest.raises(HoldfastError, match="odd"):
        read_table(local_spark, delta(tmp_path / "ids")).collect()


def test_renamed_columns_are_found_in_files_without_ids(
    local_spark: SparkSession, tmp_path: Path
) -> None:
    table = iceberg_in(tmp_path)
    table.catalog().create_namespace("sales")
    rows = pa.table({"id": [1], "pair": [{"a": 1}], "list": [[{"k": 2}]]})
    made = table.catalog().create_table("sales.orders", rows.schema)
    path = tmp_path / "plain.parquet"
    pq.write_table(rows, path)
    made.add_files([str(path)])
    with made.update_schema() as update:
        update.rename_column("id", "key")
        update.rename_column("pair.a", "b")
        update.rename_column(("list", "element", "k"), "n")
    expected = [{"key": 1, "pair": {"b": 1}, "list": [{"n": 2}]}]
    assert in_order(by_library(table)) == expected
    assert in_order(by_spark(local_spark, table)) == expected
