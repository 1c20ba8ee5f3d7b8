"""Copying entries directly from one store to another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from holdfast.connection import Connection
from holdfast.errors import InvalidInput
from holdfast.portable.source.location import Location
from holdfast.settings import without_password
from holdfast.spark.error_translation import translated
from holdfast.spark.transfer.checksum import Total
from holdfast.spark.transfer.filter import entries
from holdfast.spark.transfer.plan import ROWS, Chunk, planned
from holdfast.spark.transfer.resume import Record, resumed
from holdfast.spark.transfer.source import open_kept
from holdfast.spark.transfer.target import Target, check_declared


def copy_entries(
    spark: SparkSession,
    connection: Connection,
    location: Location,
    selection: dict[str, str],
    *,
    resolve: bool,
    declare: bool,
    agree: Callable[[str], None],
    say: Callable[[str], None],
    rows: int = ROWS,
) -> dict[str, Total] | None:
    """Write the selected entries of the registered store to another one. Return the totals of each
    table, or None if there is nothing to copy.

    Raise InvalidInput if both are the same store, and UnknownAsset for undeclared assets.
    """
    name = without_password(location.url)
    with closing(open_kept(location)) as store, translated(f"copy to {name}"):
        target = Target(spark, location, store)
        record = Record(connection, "copy", [location.url, selection, resolve])
        if record.is_in(store):
            raise InvalidInput(
                f"{name} is also the source of the entries", hint="choose another with --to"
            )
        chunks = resumed(record, partial(planned, spark, selection, rows), say)
        if not chunks:
            return None
        needed = set()
        if "asset_store" in selection:
            where = selection["asset_store"]
            assets = entries(spark, "asset_store", where, columns="asset, uri").distinct()
            needed = {(row.asset, row.uri) for row in assets.collect()}
        missing = target.missing_assets(needed)
        check_declared(missing, declare)
        agree(f"Copy to {name} and overwrite the entries that have the same keys?")
        target.declare(missing)

        def source(chunk: Chunk) -> DataFrame:
            return chunk.entries(spark, resolve=resolve)

        with record.attempt(chunks) as task_store:
            return target.bring(chunks, source, task_store)
