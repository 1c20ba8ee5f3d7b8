"""Files of lake tables that Spark's executors write and read without a jar."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from objectserver import ObjectServer, object_server
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from holdfast.errors import BackendFailed, InvalidInput, MissingDependency
from holdfast.portable.lake.footers import metadata_of
from holdfast.portable.lake.storage import open_files
from holdfast.portable.lake.writing import WRITTEN, Target, write
from holdfast.spark.error_translation import has_raised
from holdfast.spark.lake.changes import TableFile
from holdfast.spark.lake.executor_files import (
    PARTITION,
    TOO_LONG,
    collect_footers,
    delete_files,
    partition_column,
    read_files,
    write_files,
)
from holdfast.spark.lake.table import DataFile, Storage

PLACE = "data-holdfast/load/attempt"
ODD = """
SELECT * FROM VALUES
    (1, NULL, DATE'1582-10-15', TIMESTAMP'1969-12-31 23:59:59.999999Z', TIMESTAMP_NTZ'0001-01-01 00:00:00', 1.50BD, true),
    (2, '', DATE'0001-01-01', TIMESTAMP'1900-01-01 00:00:00Z', TIMESTAMP_NTZ'2024-03-31 02:30:00', -0.01BD, false),
    (3, 'a/b=c,d~e_%2F', DATE'9999-12-31', NULL, NULL, NULL, NULL),
    (4, '_hidden', NULL, TIMESTAMP'2024-10-27 00:30:00Z', NULL, 0.00BD, true),
    (5, '.', NULL, TIMESTAMP'2024-10-27 01:30:00Z', NULL, 0.00BD, true),
    (6, '日本 +*', NULL, TIMESTAMP'9999-12-31 23:59:59.999999Z', NULL, 99.99BD, true),
    (7, '~null', NULL, NULL, NULL, NULL, NULL),
    (8, '~empty', NULL, NULL, NULL, NULL, NULL)
AS rows(id, text, day, time, local, amount, flag)
"""  # noqa: E501
COLUMNS = ["text", "day", "time", "local", "amount", "flag"]


@pytest.fixture(scope="module")
def s3() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


@pytest.fixture
def bucket(s3: ObjectServer) -> Storage:
    options = {name.lower(): value for name, value in s3.environment.items()}
    options["AWS_S3_ALLOW_UNSAFE_RENAME"] = "true"  # which only deltalake has
    return Storage(f"{s3.make_bucket()}/a table/orders", options)


@pytest.fixture
def table(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "a täble"), {})


def read_back(
    rows: DataFrame, storage: Storage, files: list[DataFile], partition_by: list[str] | None = None
) -> DataFrame:
    names = partition_by or []
    found = [
        TableFile(file.path, file.size, None, dict(zip(names, file.partition, strict=True)))
        for file in files
    ]
    return read_files(rows.sparkSession, storage, found, rows.schema)


def as_text(rows: DataFrame) -> list[str]:
    return sorted(
        rows.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false')) j").toPandas()["j"]
    )


def nested(spark: SparkSession) -> DataFrame:
    return spark.range(0, 2000, 1, 4).selectExpr(
        "id",
        "if(id % 3 = 0, null, named_struct('x', id, 'y', array(named_struct('z', string(id))))) s",
        "map('k', array(id, null), 'empty', array()) m",
        "if(id % 7 = 0, null, binary(string(id))) b",
        "cast(id as decimal(38, 10)) wide",
        "cast(id as decimal(9, 2)) small",
        "timestamp'1950-01-01 00:00:00.000001Z' + make_dt_interval(0, 0, 0, id) t",
        "timestamp_ntz'1850-01-01 00:00:00.000001' + make_dt_interval(id) n",
        "float(id) / 3 f",
        "tinyint(id % 100) tiny",
        "if(id % 3 = 0, null, "
        "array(named_struct('q', if(id % 2 = 0, null, named_struct('x', id))))) deep",
    )


def test_nested_rows_come_back_as_they_were(spark: SparkSession, table: Storage) -> None:
    rows = nested(spark)

    files = write_files(rows, table, PLACE, [], keep_partition_columns=False)
    found = read_back(rows, table, files)

    assert found.schema == rows.schema
    assert as_text(found) == as_text(rows)
    assert [metadata_of(file.footer).num_rows for file in files] == [500] * 4
    assert {file.path.rpartition("/")[0] for file in files} == {PLACE}
    sizes = {each.path: each.size for each in open_files(*table).list("")}
    assert sizes == {file.path: file.size for file in files}


@pytest.mark.parametrize("kept", [False, True])
def test_odd_partition_values_come_back_as_they_were(
    classic_spark: SparkSession, table: Storage, kept: bool
) -> None:
    rows = classic_spark.sql(ODD)

    files = write_files(rows, table, PLACE, COLUMNS, keep_partition_columns=kept)

    assert as_text(read_back(rows, table, files, COLUMNS)) == as_text(rows)
    assert len({file.partition for file in files}) == 8
    assert len({file.path.split("/")[3] for file in files}) == 8
    stored = {tuple(metadata_of(file.footer).schema.to_arrow_schema().names) for file in files}
    assert stored == {("id", *(COLUMNS if kept else ()))}


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu"])
def test_spark_and_executors_report_the_same_partitions(
    classic_spark: SparkSession, table: Storage, zone: str
) -> None:
    classic_spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = classic_spark.sql(ODD)
        kinds = [(name, rows.schema[name].dataType) for name in COLUMNS]
        own = write_files(rows, table, PLACE, COLUMNS, keep_partition_columns=False)
        directories = rows.withColumn(PARTITION, partition_column(rows.schema, COLUMNS))
        to = f"{table.location}/data-holdfast/load/spark"
        directories.drop(*COLUMNS).write.partitionBy(PARTITION).parquet(to)
        found = collect_footers(classic_spark, table, "data-holdfast/load/spark", kinds)
    finally:
        classic_spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert sorted(map(str, (file.partition for file in found))) == sorted(
        map(str, (file.partition for file in own))
    )
    assert as_text(read_back(rows, table, found, COLUMNS)) == as_text(rows)


def test_long_partition_values_are_for_executors_only(
    classic_spark: SparkSession, table: Storage
) -> None:
    rows = classic_spark.sql("SELECT id, repeat('ü', 500) || id AS text FROM range(3)")

    files = write_files(rows, table, PLACE, ["text"], keep_partition_columns=False)
    with pytest.raises(Exception, match="USER_RAISED") as raised:
        rows.select(partition_column(rows.schema, ["text"])).collect()

    assert as_text(read_back(rows, table, files, ["text"])) == as_text(rows)
    assert len({os.path.dirname(file.path) for file in files}) == 3
    assert has_raised(raised.value, TOO_LONG)


def test_partitions_of_bytes_are_refused_before_anything_is_written(
    classic_spark: SparkSession, table: Storage
) -> None:
    rows = classic_spark.sql("SELECT 1 AS id, X'00' AS code")

    with pytest.raises(InvalidInput, match="the partition column `code` is of type binary"):
        write_files(rows, table, PLACE, ["code"], keep_partition_columns=True)

    assert not Path(table.location).exists()


@pytest.mark.parametrize("writer", ["Spark", "executors"])
def test_partitions_of_the_year_10000_are_refused(
    classic_spark: SparkSession, table: Storage, writer: str
) -> None:
    rows = classic_spark.sql("SELECT 1 AS id, date_add(DATE'9999-12-31', 1) AS day")

    with pytest.raises(InvalidInput, match="out of range") as caught:
        if writer == "executors":
            write_files(rows, table, PLACE, ["day"], keep_partition_columns=False)
        directories = rows.select("id", partition_column(rows.schema, ["day"]).alias(PARTITION))
        directories.write.partitionBy(PARTITION).parquet(f"{table.location}/{PLACE}")
        collect_footers(classic_spark, table, PLACE, [("day", rows.schema["day"].dataType)])

    assert "years 1 to 9999" in caught.value.hint


def test_no_rows_are_no_files(classic_spark: SparkSession, table: Storage) -> None:
    rows = classic_spark.range(0, 10, 1, 3).filter("id < 0")

    files = write_files(rows, table, PLACE, [], keep_partition_columns=False)

    assert files == []
    assert not Path(table.location).exists()
    assert read_back(rows, table, files).count() == 0
    assert read_back(rows, table, files).schema == rows.schema


@pytest.mark.parametrize("count", [3, 100])
def test_footers_of_sparks_files_have_their_rows(
    classic_spark: SparkSession, table: Storage, count: int
) -> None:
    rows = classic_spark.range(0, 1000, 1, count)
    rows.write.parquet(f"{table.location}/{PLACE}")

    files = collect_footers(classic_spark, table, PLACE, [])

    assert len(files) == count
    assert sum(metadata_of(file.footer).num_rows for file in files) == 1000
    assert read_back(rows, table, files).count() == 1000


def test_columns_that_came_later_are_null_and_numbers_are_wider(
    spark: SparkSession, table: Storage
) -> None:
    before = spark.range(3).selectExpr("int(id) id", "float(1.5) f")
    files = write_files(before, table, PLACE, [], keep_partition_columns=False)
    schema = StructType.fromDDL("new array<string>, f double, id decimal(20, 1)")

    found = read_files(spark, table, [TableFile(one.path, one.size, None) for one in files], schema)

    assert sorted(map(tuple, found.collect())) == [
        (None, 1.5, Decimal(f"{number}.0")) for number in range(3)
    ]


def test_columns_with_ids_are_found_after_a_rename(
    classic_spark: SparkSession, table: Storage
) -> None:
    stored = pa.schema([pa.field("old", pa.int32(), metadata={"PARQUET:field_id": "7"})])
    with open_files(*table).create("file.parquet") as file:
        pa.parquet.write_table(pa.table([[1, 2]], stored), file)
    schema = StructType([StructField("now", LongType(), True, {"parquet.field.id": 7})])

    found = read_files(classic_spark, table, [TableFile("file.parquet", 1, None)], schema)

    assert sorted(found.collect()) == [(1,), (2,)]


def test_objects_come_back_as_they_were(spark: SparkSession, bucket: Storage, request: Any) -> None:
    rows = nested(spark).withColumn("p", F.expr("if(id % 2 = 0, 'a/b', null)"))
    if "cluster" in request.node.name:
        with pytest.raises(MissingDependency, match="needs the package obstore"):
            write_files(rows, bucket, PLACE, ["p"], keep_partition_columns=False)
        return

    files = write_files(rows, bucket, PLACE, ["p"], keep_partition_columns=False)
    found = read_back(rows, bucket, files, ["p"])

    assert as_text(found) == as_text(rows)
    sizes = {each.path: each.size for each in open_files(*bucket).list(PLACE)}
    assert sizes == {file.path: file.size for file in files}
    delete_files(bucket, sizes)
    assert list(open_files(*bucket).list("")) == []


@pytest.mark.full
def test_files_larger_than_a_part_are_uploaded_whole(
    classic_spark: SparkSession, bucket: Storage
) -> None:
    rows = classic_spark.range(0, 1_500_000, 1, 1).selectExpr("id", "uuid() AS u")

    files = write_files(rows, bucket, PLACE, [], keep_partition_columns=False)
    found = read_back(rows, bucket, files)

    assert files[0].size > 20 * 2**20
    assert metadata_of(files[0].footer).num_row_groups > 1
    assert found.agg(F.count("id"), F.sum("id"), F.count_distinct("u")).first() == (
        1_500_000,
        1_499_999 * 750_000,
        1_500_000,
    )


def test_a_bucket_that_does_not_exist_is_named(
    classic_spark: SparkSession, bucket: Storage
) -> None:
    absent = bucket._replace(location="s3://no-such-bucket-here/orders")

    with pytest.raises(BackendFailed, match="cannot write s3://no-such-bucket-here/orders/data-"):
        write_files(classic_spark.range(3), absent, PLACE, [], keep_partition_columns=False)


def test_a_directory_without_permission_is_named(
    classic_spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    blocked = Storage(str(tmp_path / "file"), {})

    with pytest.raises(BackendFailed, match=f"cannot write {tmp_path}/file/data-holdfast"):
        write_files(classic_spark.range(3), blocked, PLACE, [], keep_partition_columns=False)


def failing_once(is_killed: bool, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows, and fail the first attempt of each Spark task at its end."""
    from pyspark import TaskContext

    yield from batches
    context: Any = TaskContext.get()
    if context.attemptNumber() == 0 and is_killed:
        os.kill(os.getpid(), signal.SIGKILL)
    if context.attemptNumber() == 0:
        raise RuntimeError("the first attempt fails after its last row")


@pytest.mark.parametrize("is_killed", [False, True])
def test_attempts_of_a_spark_task_leave_no_row_twice(
    spark: SparkSession, table: Storage, is_killed: bool
) -> None:
    rows = spark.range(0, 300, 1, 3).selectExpr("id", "id % 5 AS p")
    failing = rows.mapInArrow(partial(failing_once, is_killed), rows.schema)

    files = write_files(failing, table, PLACE, ["p"], keep_partition_columns=False)

    assert len(files) == 15
    assert as_text(read_back(rows, table, files, ["p"])) == as_text(rows)


def killed_after_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows, and kill the first attempt of a Spark task when most of them are written."""
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    for count, batch in enumerate(batches):
        if count == 8 and context.attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch


def test_files_of_a_killed_attempt_are_not_reported(
    classic_spark: SparkSession, table: Storage
) -> None:
    def sorted_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from write(target, killed_after_files(batches))

    rows = classic_spark.range(0, 100_000, 1, 1).selectExpr("id", "id div 10000 AS p")
    target = Target(*table, PLACE, ("id", "p"), ("p",), False)

    written = rows.mapInArrow(sorted_rows, WRITTEN).collect()

    there = {each.path for each in open_files(*table).list(PLACE)}
    assert len(written) == 10
    assert {row.path for row in written} < there


def test_thousands_of_files_are_written_and_read(
    classic_spark: SparkSession, table: Storage
) -> None:
    rows = classic_spark.range(0, 10_000, 1, 2).selectExpr("id", "int(id % 2500) AS p")

    files = write_files(rows, table, PLACE, ["p"], keep_partition_columns=False)

    assert len(files) == len({file.path for file in files}) == 5000
    assert read_back(rows, table, files, ["p"]).agg(F.sum("id"), F.sum("p")).first() == (
        49_995_000,
        12_495_000,
    )
    found = collect_footers(classic_spark, table, PLACE, [])
    assert sum(metadata_of(file.footer).num_rows for file in found) == 10_000


def test_integers_of_a_smaller_type_are_not_mixed_up(
    classic_spark: SparkSession, table: Storage
) -> None:
    rows = classic_spark.range(0, 10).select(F.col("id").cast(IntegerType()).alias("a b`c.d"))

    files = write_files(rows, table, PLACE, [], keep_partition_columns=False)

    assert as_text(read_back(rows, table, files)) == as_text(rows)
