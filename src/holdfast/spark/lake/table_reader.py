"""Lake tables at a version, read as DataFrames without a jar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.errors import InvalidInput, InvalidType
from holdfast.spark.lake.changes import History, Layout, TableFile
from holdfast.spark.lake.executor_files import read_files
from holdfast.spark.lake.table import LakeTable, Storage
from holdfast.spark.loads.column_lookup import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def history_of(table: LakeTable) -> History:
    """Return the history of a table up to now. Raise InvalidInput if there is no table,
    MissingDependency without its library."""
    from holdfast.spark.lake.delta import DeltaLake

    if isinstance(table, DeltaLake):
        from holdfast.spark.lake.delta_history import DeltaHistory

        return DeltaHistory(table)
    opened = table.open()
    if opened is None:
        raise InvalidInput(
            f"{table.name} does not exist", hint="a load reads a table that others write"
        )
    from holdfast.spark.lake.iceberg_history import IcebergHistory

    return IcebergHistory(opened.table, table.name, opened.storage)  # type: ignore[attr-defined]


def read_table(spark: SparkSession, table: LakeTable, version: int | None = None) -> DataFrame:
    """Return the rows of a table at its newest version, or at another one, with the columns that it
    had then.

    An Iceberg table's version is a snapshot's id. Raise InvalidInput if the table does not have
    that version, or no longer, NotSupported if its rows cannot be read exactly.
    """
    if version is not None and type(version) is not int:
        raise InvalidType(f"version is {version!r}", hint="give a number: version=12")
    history = history_of(table)
    at = history.newest() if version is None else history.find(version)
    layout = history.layout(None if version is None else at)
    return frame(spark, history.storage, layout, [] if at is None else history.files(at))


def frame(
    spark: SparkSession, storage: Storage, layout: Layout, files: Sequence[TableFile]
) -> DataFrame:
    """Return the rows of files, with the columns of a table."""
    from pyspark.sql import functions as f

    rows = read_files(spark, storage, files, layout.stored)
    if layout.stored == layout.schema:
        return rows
    columns = zip(layout.stored, layout.schema, strict=True)
    return rows.select(
        *(f.col(quoted(one.name)).cast(to.dataType).alias(to.name) for one, to in columns)
    )
