"""Import of entries from Parquet into a store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions

from holdfast.commands import TaskFilter, Where
from holdfast.connection import Connection
from holdfast.errors import InvalidInput, NotFound
from holdfast.portable.source.location import Location
from holdfast.portable.source.schema import full_schema
from holdfast.spark.error_translation import translated
from holdfast.spark.transfer.checksum import Total
from holdfast.spark.transfer.directory import Directory
from holdfast.spark.transfer.exporting import totals_of
from holdfast.spark.transfer.filter import conditions
from holdfast.spark.transfer.manifest import Manifest, read_manifest
from holdfast.spark.transfer.plan import Chunk
from holdfast.spark.transfer.resume import Record, resumed
from holdfast.spark.transfer.target import Target, check_declared


def import_entries(
    spark: SparkSession,
    connection: Connection,
    location: Location,
    path: str,
    where: Where,
    *,
    declare: bool,
    agree: Callable[[str], None],
    say: Callable[[str], None],
) -> dict[str, Total]:
    """Write the entries of a finished export that match a filter into a store, and return the
    totals of each table. Raise NotFound if none match.

    The files are checked against the manifest before anything is written. Then `agree` is called,
    which raises to refuse.
    """
    wanted = conditions(where)
    with closing(Directory(spark, path)) as directory, translated(f"import {path}"):
        manifest = read_manifest(directory)
        _check_files(spark, directory, manifest)
        target = Target(spark, location, connection.store)
        chunks = [chunk for chunk in manifest.chunks if chunk.table in wanted]
        parquet = partial(_rows, spark, directory, wanted)
        count = sum(chunk.rows for chunk in chunks)
        if any(wanted.values()):
            count = sum(parquet(chunk).count() for chunk in chunks)
        if not count and where != TaskFilter():
            raise NotFound(
                f"{directory.path} has no such entries",
                hint="remove the options that select entries, or check the names",
            )
        assets = [
            parquet(chunk).select("asset", "uri").distinct().collect()
            for chunk in chunks
            if chunk.table == "asset_store"
        ]
        missing = target.missing_assets({(row.asset, row.uri) for found in assets for row in found})
        check_declared(missing, declare)
        agree(
            f"Import {count:,} entries from {directory.path} and overwrite those that have the "
            "same keys?"
        )
        target.declare(missing)
        record = Record(connection, "import", [directory.path, manifest, wanted])
        chunks = resumed(record, lambda: chunks, say)
        with record.attempt(chunks) as task_store:
            return target.bring(chunks, parquet, task_store)


def _rows(
    spark: SparkSession, directory: Directory, wanted: dict[str, dict[str, str | int]], chunk: Chunk
) -> DataFrame:
    path = f"{directory.path}/{chunk.table}/{chunk.name}"
    rows = spark.read.schema(full_schema(chunk.table)).parquet(path)
    for name, value in wanted[chunk.table].items():
        rows = rows.filter(functions.col(name) == functions.lit(value))
    return rows


def _check_files(spark: SparkSession, directory: Directory, manifest: Manifest) -> None:
    """Raise InvalidInput unless the files are those that were exported; it names the first that is
    not."""
    hint = "restore the directory, or export again; nothing was written"
    for name, table in manifest.tables.items():
        for part in table.chunks:
            if not directory.names(f"{name}/{part.directory}"):
                raise InvalidInput(
                    f"{directory.path}/{name}/{part.directory} is missing", hint=hint
                )
        try:
            totals = totals_of(spark, directory, name, [part.directory for part in table.chunks])
        except PySparkException as error:
            first = str(error).partition("\n")[0]
            raise InvalidInput(
                f"{directory.path}/{name} cannot be read: {first}", hint=hint
            ) from error
        for part in table.chunks:
            found = totals[part.directory]
            if found != part.total:
                raise InvalidInput(
                    f"{directory.path}/{name}/{part.directory} does not match the manifest: it "
                    f"has {found.count:,} entries with the checksum {found.checksum}, and the "
                    f"manifest has {part.count:,} with {part.checksum}",
                    hint=hint,
                )
