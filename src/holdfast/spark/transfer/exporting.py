"""Export of entries to Parquet."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from holdfast.accessor.task_store import TaskStore
from holdfast.connection import Connection
from holdfast.errors import InvalidInput
from holdfast.portable.source.schema import full_schema
from holdfast.spark.checkpoints.chunks import read_chunks, write_chunks
from holdfast.spark.checkpoints.item import directory_of
from holdfast.spark.error_translation import translated
from holdfast.spark.transfer.checksum import Total, columns
from holdfast.spark.transfer.directory import Directory
from holdfast.spark.transfer.manifest import FILE, Manifest, Part, Table, write_manifest
from holdfast.spark.transfer.plan import ROWS, Chunk, planned
from holdfast.spark.transfer.resume import Record, resumed
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
    """Write the selected entries of the registered store to a directory; return None if there are
    none.

    Before a finished export is overwritten, `agree` is called, which raises to refuse.
    """
    with closing(Directory(spark, path)) as directory, translated(f"export to {path}"):
        record = Record(connection, "export", [directory.path, selection, resolve])
        present = directory.names()
        if FILE in present:
            agree(f"There is an export in {directory.path}. Overwrite it?")
            record.forget()
        elif present and record.plan() is None:
            raise InvalidInput(
                f"{directory.path} is not empty, and does not contain an unfinished export of "
                "this selection",
                hint="choose a new directory, or remove its contents",
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
            record.confirm(task_store)
            _tidy(directory, tables)
            manifest = Manifest(
                holdfast=__version__, exported_at=datetime.now(UTC), resolved=resolve, tables=tables
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
    base = f"{directory.path}/{table}"
    paths = write_chunks(
        *(own, task_store, base, rows), key=f"exported {table}", name=lambda chunk: chunk.name
    )
    names = [path.removeprefix(f"{base}/") for path in paths]
    totals = totals_of(spark, directory, table, names)
    parts = [
        Part(name, chunk.where, totals[name].count, totals[name].checksum)
        for name, chunk in zip(names, own, strict=True)
    ]
    total = Total.sum(totals.values())
    return Table(where, total.count, total.checksum, tuple(parts))


def _tidy(directory: Directory, tables: dict[str, Table]) -> None:
    """Delete everything that is not part of this export: leftovers of a previous export, or of
    unfinished attempts."""
    kept = {f"{table}/{part.directory}" for table, its in tables.items() for part in its.chunks}
    _delete_all_but({tuple(path.split("/")) for path in kept}, directory, ())


def _delete_all_but(
    kept: set[tuple[str, ...]], directory: Directory, prefix: tuple[str, ...]
) -> None:
    if prefix in kept:
        return
    for name in directory.names("/".join(prefix)):
        below = (*prefix, name)
        if any(path[: len(below)] == below for path in kept):
            _delete_all_but(kept, directory, below)
        else:
            directory.delete("/".join(below))


def totals_of(
    spark: SparkSession, directory: Directory, table: str, names: list[str]
) -> dict[str, Total]:
    """Return the total of each chunk's Parquet files."""
    if not names:
        return {}
    paths = [f"{directory.path}/{table}/{name}" for name in names]
    rows = read_chunks(spark.read.schema(full_schema(table)), paths)
    found = rows.groupBy("chunk").agg(*columns(table)).collect()
    totals = {directory_of(row["chunk"]): Total(row["count"], row["checksum"]) for row in found}
    return {name: totals.get(name.partition("/")[0], Total(0, "0")) for name in names}
