"""Appends of the batches of a streaming query to lake tables.

Spark unpickles them in the process where the query runs, where Holdfast and the table's library
must be installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.spark.lake.append import Append, append_once
from holdfast.spark.lake.table import Identity, LakeTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from holdfast.spark.streams.batch import Batch


class BatchAppend:
    """Appends each batch of a query exactly once: the commit names the query and the batch."""

    def __init__(self, table: LakeTable) -> None:
        self._table = table

    def __call__(self, df: DataFrame, batch: Batch) -> None:
        """Append a batch, unless the table has it. Raise TableChanged if the table has a later
        batch of the query."""
        sequence = f"holdfast.stream.{batch.query}"
        write = Append(
            # Spark repeats a batch with the same rows, so that no try needs to be the newest one.
            identity=Identity(sequence, batch.id, f"{batch.query}.{batch.id}"),
            name=f"stream.{batch.query}.{batch.id:012}",
            watermark=None,
            rows=lambda: df,
            check_rows=lambda rows: None,
            counted=batch.id - 1,
            begin=lambda: lambda: None,
            reset="start the query with a new checkpoint",
        )
        append_once(self._table, write)
