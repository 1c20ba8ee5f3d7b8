"""Exactly-once batches of a streaming query.

Spark ships this module by value to the process where the query runs, together with those that
handles need: it may use nothing else but the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import Conflict, NotFound, VersionConflict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.portable.handle import AssetHandle


class Batch(NamedTuple):
    """The identity of a batch, for its output. It is the same when the batch is repeated."""

    id: int
    query: str
    """The query's id, which its checkpoint keeps: together with the batch's id, it can name a
    transaction."""

    @property
    def directory(self) -> str:
        """The name of the batch's own directory, in Spark's style for partitions."""
        return f"batch={self.id}"


class Batches:
    """Calls the function for each batch that is not recorded yet, and then records it.

    Spark repeats a batch only if it is the last one, and did not complete. Anything else means that
    the checkpoint and the asset store do not belong together, and raises Conflict.
    """

    def __init__(
        self,
        handle: AssetHandle,
        function: Callable[[DataFrame, Batch], object],
        checkpoint: str,
        key: str,
    ) -> None:
        self._handle = handle
        self._function = function
        self._checkpoint = checkpoint
        self._key = key
        self._seen: Batch | None = None

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        batch = Batch(batch_id, self._query(df.sparkSession, batch_id))
        entry = self._handle.entry(self._key)
        last = None if entry is None else self._recorded(entry.value)
        if last == batch:
            return
        self._check(batch, last)
        self._function(df, batch)
        self._record(batch, 0 if entry is None else entry.version)
        self._seen = batch

    def _query(self, spark: SparkSession, batch_id: int) -> str:
        """Return the query's id. Read it again if this batch does not follow the previous one: the
        query was restarted, possibly with another checkpoint."""
        if self._seen is not None and self._seen.id + 1 == batch_id:
            return self._seen.query
        return query_of(spark, self._checkpoint)

    def _recorded(self, value: Any) -> Batch:
        try:
            return Batch(value["batch"], value["query"])
        except (KeyError, TypeError):
            raise Conflict(
                f"`{self._key}` of {self._handle} is not the record of a streaming query's batch: "
                f"{value!r}",
                hint="give foreach_batch another key=",
            ) from None

    def _check(self, batch: Batch, last: Batch | None) -> None:
        done = -1 if last is None else last.id
        if last is not None and last.query != batch.query:
            raise Conflict(
                f"the checkpoint {self._checkpoint} is not the one recorded for {self._handle}: "
                f"query {batch.query} is at batch {batch.id}, and batch {done} of query "
                f"{last.query} is recorded",
                hint="restore the other checkpoint. To load everything again, remove the output, "
                f"and delete `{self._key}` from the asset store",
            )
        if batch.id < done:
            raise Conflict(
                f"the checkpoint {self._checkpoint} is behind {self._handle}: it is at batch "
                f"{batch.id}, and batch {done} is recorded",
                hint="restore the newer checkpoint. To load everything again, remove the output "
                f"and the checkpoint, and delete `{self._key}` from the asset store",
            )
        if batch.id > done + 1:
            adopted = json.dumps(_value(Batch(batch.id - 1, batch.query)))
            raise Conflict(
                f"the checkpoint {self._checkpoint} is ahead of {self._handle}: it is at batch "
                f"{batch.id}, and {f'only batch {done}' if last else 'none'} is recorded",
                hint="restore the older checkpoint. If the batches before this one are in the "
                f"output, set `{self._key}` of the asset store to {adopted}",
            )

    def _record(self, batch: Batch, version: int) -> None:
        try:
            self._handle.set(self._key, _value(batch), if_version=version)
        except VersionConflict as error:
            raise Conflict(
                f"another query recorded a batch in `{self._key}` of {self._handle} while batch "
                f"{batch.id} of query {batch.query} was written",
                hint="run one query at a time, or give each its own key=",
            ) from error


def query_of(spark: SparkSession, checkpoint: str) -> str:
    """Return the id of the query that owns a checkpoint; raise NotFound if there is none."""
    from pyspark.errors import AnalysisException

    path = f"{checkpoint.rstrip('/')}/metadata"
    try:
        [[text]] = spark.read.text(path, wholetext=True).collect()
        return str(json.loads(text)["id"])
    except (AnalysisException, ValueError, KeyError) as error:
        raise NotFound(
            f"there is no checkpoint of a streaming query at {checkpoint}",
            hint="give foreach_batch the query's own checkpointLocation as checkpoint=",
        ) from error


def _value(batch: Batch) -> dict[str, Any]:
    return {"query": batch.query, "batch": batch.id}
