"""Iceberg tables of the tests, and files that are written for them without Spark."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from holdfast.portable.lake.storage import open_files
from holdfast.spark.lake.iceberg import IcebergTable
from holdfast.spark.lake.iceberg_commit import OpenIcebergTable
from holdfast.spark.lake.table import DataFile, PartitionColumn, Stamp

ORDERS = StructType().add("id", "long").add("country", "string")


def orders(*ids: int, country: str | None = "DE") -> pa.RecordBatch:
    return pa.record_batch(
        {"id": pa.array(ids, pa.int64()), "country": pa.array([country] * len(ids), pa.string())}
    )


def opened(table: IcebergTable) -> OpenIcebergTable:
    found = table.open()
    assert found is not None
    return found


def created(
    table: IcebergTable, columns: StructType = ORDERS, *partition_by: PartitionColumn
) -> IcebergTable:
    """Create a table, and return it."""
    table.create(columns, partition_by)
    return table


def written(
    table: OpenIcebergTable,
    *rows: pa.RecordBatch,
    partition: tuple[str | None, ...] = (),
    **how: Any,
) -> list[DataFile]:
    """Write a file of each batch, all of the same partition."""
    place = f"data-holdfast/load/{uuid4().hex}"
    return [
        write_file(table, f"{place}/{uuid4().hex}.parquet", one, partition, **how) for one in rows
    ]


def write_file(
    table: OpenIcebergTable,
    path: str,
    rows: pa.RecordBatch | pa.Table,
    partition: tuple[str | None, ...] = (),
    *,
    group: int = 1_000_000,
    **how: Any,
) -> DataFile:
    """Write a file with row groups of a number of rows."""
    content = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    footers: list[Any] = []
    options = {"store_schema": False, "coerce_timestamps": "us", **how}
    with open_files(*table.storage).create(path) as file:
        with pq.ParquetWriter(
            file, content.schema, metadata_collector=footers, **options
        ) as writer:
            writer.write_table(content, row_group_size=group)
        size = file.tell()
    footer = pa.BufferOutputStream()
    footers[0].write_metadata_file(footer)
    return DataFile(path, size, partition, footer.getvalue().to_pybytes())


def stamp(number: int = 1, *, sequence: str = "loads", id: str = "", rows: int = 2) -> Stamp:
    return Stamp(sequence, number, id or f"id-{number}", rows, f"data-holdfast/load-{number}/x")


def append(table: IcebergTable, number: int, *ids: int, **stamped: Any) -> str:
    """Append a file to the newest version, and return the new version."""
    now = opened(table)
    return now.append(written(now, orders(*ids)), stamp(number, **stamped))


def ids(table: IcebergTable) -> list[int]:
    """Return the ids of the rows that PyIceberg reads."""
    rows = opened(table).table.scan().to_arrow()
    return sorted(rows.column("id").to_pylist())
