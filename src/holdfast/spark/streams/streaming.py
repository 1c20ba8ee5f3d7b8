"""Streaming queries: exactly-once batches, and the progress of a query."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.accessor.asset_store import AssetStore
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import InvalidType
from holdfast.model.value import check_key
from holdfast.spark.code_shipping import ship
from holdfast.spark.error_translation import error_in
from holdfast.spark.lake.batch_append import BatchAppend
from holdfast.spark.lake.table import LakeTable
from holdfast.spark.paths import check_path
from holdfast.spark.streams import batch
from holdfast.spark.streams.batch import Batch, Batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

INTERVAL: Final = 1.0


def foreach_batch(
    asset_store: AssetStore,
    function: Callable[[DataFrame, Batch], object] | LakeTable,
    *,
    checkpoint: str,
    key: str = "stream",
) -> Callable[[DataFrame, int], None]:
    """Return a function for `writeStream.foreachBatch` that makes each batch count once.

    `function(df, batch)` is called for each batch that the asset store has not recorded, and must
    write it idempotently: into `batch.directory`, replacing it whole. The batch is recorded when
    the function has returned. A Delta or Iceberg table in place of the function gets each batch
    appended exactly once. `checkpoint` is the query's own `checkpointLocation`; if that and the
    record disagree, the query fails with an error that explains it.
    """
    if isinstance(function, LakeTable):
        function = BatchAppend(function)
    if not callable(function):
        raise InvalidType(
            f"foreach_batch calls a function for each batch, not a {type(function).__name__}",
            hint="foreach_batch(asset_store, function, checkpoint=…)",
        )
    if not hasattr(asset_store, "handle"):
        raise InvalidType(
            f"foreach_batch records batches in an asset store, not in a "
            f"{type(asset_store).__name__}",
            hint="foreach_batch(asset_store, function, checkpoint=…)",
        )
    check_key(key)
    ship(batch)
    path = check_path("checkpoint", checkpoint)
    return Batches(asset_store.handle(), function, path, key)


def follow(query: StreamingQuery, task_store: TaskStore, *, key: str = "query") -> None:
    """Wait for the query's end, and meanwhile report its progress in `key` of the task store, at
    most once a second. An error in `foreach_batch` is raised as the original error.

    If the wait ends before the query does, the query is stopped.
    """
    from pyspark.errors import StreamingQueryException

    if not hasattr(query, "awaitTermination"):
        raise InvalidType(
            f"the query is a {type(query).__name__}", hint="follow(writer.start(), …)"
        )
    progress = QueryProgress(query, task_store, key)
    try:
        while not query.awaitTermination(INTERVAL):  # type: ignore[arg-type]  # seconds, also parts
            progress.write()
        progress.write()
    except StreamingQueryException as error:
        progress.write()
        ours = error_in(str(error))
        if ours is None:
            raise
        raise ours from error
    finally:
        if query.isActive:
            query.stop()


class QueryProgress:
    """Writes the progress of a query to an entry of a task store."""

    def __init__(self, query: StreamingQuery, task_store: TaskStore, key: str) -> None:
        self._query = query
        self._store = task_store
        self._key = key
        self._rows = 0
        self._last = (-1, "")

    def write(self) -> None:
        """Write the entry if there is new progress."""
        new = [each for each in self._query.recentProgress if _moment(each) > self._last]
        if new:
            self._rows += sum(each.numInputRows for each in new)
            self._last = _moment(new[-1])
            self._store.set(self._key, self._value(new[-1]))

    def _value(self, last: StreamingQueryProgress) -> dict[str, Any]:
        rates = {
            "input_rows_per_second": last.inputRowsPerSecond,
            "processed_rows_per_second": last.processedRowsPerSecond,
        }
        return {
            "query": str(last.id),
            "name": last.name or "",
            "batch": last.batchId,
            "rows": self._rows,
            "at": last.timestamp,
        } | {name: rate for name, rate in rates.items() if math.isfinite(rate)}


def _moment(progress: StreamingQueryProgress) -> tuple[int, str]:
    """Return a sort key with the time, as an idle query repeatedly reports the batch it waits
    for."""
    return progress.batchId, progress.timestamp
