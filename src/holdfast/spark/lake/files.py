"""The data files of an append: Spark's own writer writes them, or executors through Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.portable.lake.footers import metadata_of
from holdfast.portable.lake.storage import open_files
from holdfast.spark.error_translation import has_raised
from holdfast.spark.lake.executor_files import (
    PARTITION,
    TOO_LONG,
    collect_footers,
    delete_files,
    partition_column,
    write_files,
)
from holdfast.spark.lake.partition_transforms import with_partitions
from holdfast.spark.lake.table import DataFile, OpenTable, Storage
from holdfast.spark.paths import renames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPARK: Final = "Spark's Parquet writer"
ARROW: Final = "Arrow on Spark's executors"
_SETTINGS: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
"""Times, decimals and dates as all readers know them."""


class Written(NamedTuple):
    """The files of an append."""

    files: list[DataFile]
    rows: int
    writer: str
    """What has written them."""


def write_rows(df: DataFrame, table: OpenTable, place: str) -> Written:
    """Write rows that have the columns of a table into new files below a directory of it.

    Spark's own writer is used where Spark and this process share the table's file system.
    """
    names, keep = [column.name for column in table.partition_by], table.keeps_partition_columns
    if any(column.transform != "identity" for column in table.partition_by):
        df, names = with_partitions(df, table.partition_by)
        keep = False  # the columns that they are computed from stay
    writer, files = SPARK, None
    if "://" not in table.storage.location and renames(df.sparkSession, table.storage.location):
        files = _written_by_spark(df, table, place, names, keep)
    if files is None:
        writer = ARROW
        files = write_files(df, table.storage, place, names, keep_partition_columns=keep)
    counted = [(file, metadata_of(file.footer).num_rows) for file in files]
    return Written([file for file, rows in counted if rows], sum(n for _, n in counted), writer)


def discard(storage: Storage, place: str) -> None:
    """Delete the files of an attempt."""
    delete_files(storage, [file.path for file in open_files(*storage).list(place)])


def _written_by_spark(
    df: DataFrame, table: OpenTable, place: str, names: list[str], keep: bool
) -> list[DataFile] | None:
    """Return the files that Spark's writer has written; None if a value is too long for the name
    of a directory."""
    spark, schema = df.sparkSession, df.schema
    if names:
        df = df.withColumn(PARTITION, partition_column(schema, names))
        df = df if keep else df.drop(*names)
    writer = df.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    writer = writer.partitionBy(PARTITION) if names else writer
    try:
        with _settings(spark):
            writer.mode("error").parquet(f"{table.storage.location}/{place}")
    except Exception as error:
        if has_raised(error, TOO_LONG):
            return None
        raise
    kinds = [(name, schema[name].dataType) for name in names]
    return collect_footers(spark, table.storage, place, kinds)


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in _SETTINGS}
    try:
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, former in before.items():
            spark.conf.set(name, former)  # type: ignore[arg-type]
