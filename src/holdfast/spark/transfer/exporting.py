"""Entries to Parquet."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType

from holdfast.accessor import TaskStore
from holdfast.connection import Connection
from holdfast.errors import InvalidInput
from holdfast.spark.chunks import write_chunks
from holdfast.spark.failure import translated
from holdfast.spark.source.tables import full_schema
from holdfast.spark.transfer.directory import Directory
from holdfast.spark.transfer.manifest import FILE, Manifest, Part, Table, write_manifest
from holdfast.spark.transfer.plan import ROWS, Chunk, planned
from holdfast.spark.transfer.record import Record, resumed
from holdfast.spark.transfer.totals import Total, columns
from holdfast.version import __version__


def export_entries(
    spark: SparkSession,
    connection: Connection,
    path: str,
    selection: dict[str, str],
    *,
    resolve: bool,
    agree: Callable[[str], None],
    say: Callable[[str], None],
    rows: int = ROWS,
) -> Manifest | None:
    """Write the selected entries of the registered store to a directory; None where there are none.

    Before a finished export is overwritten, `agree` is asked, which raises where it does not.
    """
    with closing(Directory(spark, path)) as directory, translated(f"export to {path}"):
        record = Record(connection, "export", [directory.path, selection, resolve])
        present = directory.names()
        if FILE in present:
            agree(f"There is an export in {directory.path}. Overwrite it?")
            record.forget()
        elif present and record.plan() is None:
            raise InvalidInput(
                f"{directory.path} is not empty, and no export of this selection began in it",
                hint="name a new directory, or remove what is there",
            )
        chunks = resumed(record, partial(planned, spark, selection, rows), say)
        if not chunks:
            return None
        with record.attempt(chunks) as task_store:
            directory.delete(FILE)
            tables = {
                table: _written(spark, task_store, directory, table, where, chunks, resolve)
                for table, where in selection.items()
            }
            for name in set(directory.names()) - tables.keys():
                directory.delete(name)
            manifest = Manifest(
                holdfast=__version__,
                exported_at=datetime.now(UTC),
                resolved=resolve,
                tables=tables,
            )
            write_manifest(directory, manifest)
        return manifest


def _written(
    spark: SparkSession,
    task_store: TaskStore,
    directory: Directory,
    table: str,
    where: str,
    chunks: list[Chunk],
    resolve: bool,
) -> Table:
    def rows(chunk: Chunk) -> DataFrame:
        return chunk.entries(spark, resolve=resolve)

    own = [chunk for chunk in chunks if chunk.table == table]
    paths = write_chunks(
        *(own, task_store, f"{directory.path}/{table}", rows),
        key=f"exported {table}",
        name=lambda chunk: chunk.name,
    )
    names = [path.rpartition("/")[2] for path in paths]
    for name in set(directory.names(table)) - set(names):
        directory.delete(f"{table}/{name}")
    totals = totals_of(spark, directory, table, names)
    parts = [
        Part(name, chunk.where, totals[name].count, totals[name].checksum)
        for name, chunk in zip(names, own, strict=True)
    ]
    total = Total.sum(totals.values())
    return Table(where, total.count, total.checksum, tuple(parts))


def totals_of(
    spark: SparkSession, directory: Directory, table: str, names: list[str]
) -> dict[str, Total]:
    """What the Parquet files of each chunk hold."""
    if not names:
        return {}
    base = f"{directory.path}/{table}"
    schema = StructType([*full_schema(table).fields]).add("chunk", StringType())
    reader = spark.read.schema(schema).option("basePath", base)
    rows = reader.parquet(*(f"{base}/{name}" for name in names))
    found = rows.groupBy("chunk").agg(*columns(table)).collect()
    totals = {f"chunk={row['chunk']}": Total(row["count"], row["checksum"]) for row in found}
    return {name: totals.get(name, Total(0, "0")) for name in names}
