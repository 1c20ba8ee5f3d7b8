"""A streaming query's batches, each of which counts once.

Spark ships this module by value to where the query runs, together with those that handles need: it
may use nothing else but the standard library.
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
    """What a batch is to be written under. Done again, it is the same."""

    id: int
    query: str
    """The query's id, which its checkpoint keeps: with the batch's, a transaction's name."""

    @property
    def directory(self) -> str:
        """The name of its own directory, as Spark names those of partitions."""
        return f"batch={self.id}"


class Batches:
    """Calls the function for each batch that is not recorded yet, and records it then.

    Spark does a batch again only if it is the last one, and did not come to its end. Anything else
    means that the checkpoint and the asset store do not belong together.
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
        """Read anew where this batch does not follow the one before: the query was started again,
        and its checkpoint may be another one."""
        if self._seen is not None and self._seen.id + 1 == batch_id:
            return self._seen.query
        return query_of(spark, self._checkpoint)

    def _recorded(self, value: Any) -> Batch:
        try:
            return Batch(value["batch"], value["query"])
        except (KeyError, TypeError):
            raise Conflict(
                f"`{self._key}` of {self._handle} records no batch of a streaming query: {value!r}",
                hint="give foreach_batch another key=",
            ) from None

    def _check(self, batch: Batch, last: Batch | None) -> None:
        done = -1 if last is None else last.id
        if last is not None and last.query != batch.query:
            raise Conflict(
                f"the checkpoint {self._checkpoint} is not the one that {self._handle} knows: "
                f"query {batch.query} is at batch {batch.id}, and batch {done} of query "
                f"{last.query} is recorded",
                hint="put the other checkpoint back. To load everything again, remove the output, "
                f"and delete `{self._key}` from the asset store",
            )
        if batch.id < done:
            raise Conflict(
                f"the checkpoint {self._checkpoint} is behind {self._handle}: it is at batch "
                f"{batch.id}, and batch {done} is recorded",
                hint="put the newer checkpoint back. To load everything again, remove the output "
                f"and the checkpoint, and delete `{self._key}` from the asset store",
            )
        if batch.id > done + 1:
            adopted = json.dumps(_value(Batch(batch.id - 1, batch.query)))
            raise Conflict(
                f"the checkpoint {self._checkpoint} is ahead of {self._handle}: it is at batch "
                f"{batch.id}, and {f'only batch {done}' if last else 'none'} is recorded",
                hint="put the older checkpoint back. If the batches before this one are in the "
                f"output, set `{self._key}` of the asset store to {adopted}",
            )

    def _record(self, batch: Batch, version: int) -> None:
        try:
            self._handle.set(self._key, _value(batch), if_version=version)
        except VersionConflict as error:
            raise Conflict(
                f"another query has recorded a batch in `{self._key}` of {self._handle} while "
                f"batch {batch.id} of query {batch.query} was written",
                hint="let one query write at a time, or give each a key= of its own",
            ) from error


def query_of(spark: SparkSession, checkpoint: str) -> str:
    """The id of the query whose checkpoint is there."""
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
