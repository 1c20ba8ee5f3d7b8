"""The target of a transfer: entries are written chunk by chunk, and each chunk is verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import and_
from typing import Final, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, functions

from holdfast import commands as c
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import HoldfastError, UnknownAsset
from holdfast.portable.source.location import Location
from holdfast.spark.checkpoints.checkpoint import checkpointed
from holdfast.spark.transfer.checksum import Total
from holdfast.spark.transfer.filter import CONTENT, IDENTITY, location_options
from holdfast.spark.transfer.plan import Chunk
from holdfast.spark.transfer.source import FORMAT
from holdfast.store import Store

NAMED: Final = 5
"""Number of assets or entries that are named in an error."""


class Target(NamedTuple):
    """The store that entries are written to."""

    spark: SparkSession
    location: Location
    store: Store

    def bring(
        self, chunks: Sequence[Chunk], rows: Callable[[Chunk], DataFrame], task_store: TaskStore
    ) -> dict[str, Total]:
        """Write the entries that `rows` returns for each chunk, except chunks that earlier attempts
        have done. Return the totals of each table. Expired entries are left out."""
        for chunk in checkpointed(chunks, task_store, key="brought", name=lambda one: one.label):
            total = self._bring(chunk, rows(chunk))
            task_store.set(f"total {chunk.label}", [total.count, total.checksum])
        totals: dict[str, list[Total]] = {chunk.table: [] for chunk in chunks}
        for chunk in chunks:
            totals[chunk.table].append(Total(*task_store.get(f"total {chunk.label}")))
        return {table: Total.sum(parts) for table, parts in totals.items()}

    def _bring(self, chunk: Chunk, rows: DataFrame) -> Total:
        if chunk.table == "task_store":
            rows = rows.filter(_is_live())
        # Persisted: by the time of the verification, the source may have changed.
        sent = rows.select(*CONTENT[chunk.table]).persist(StorageLevel.DISK_ONLY)
        try:
            total = Total.of(sent, chunk.table)
            if total.count:
                writer = sent.write.format(FORMAT).option("table", chunk.table)
                writer.options(**location_options(self.location)).mode("append").save()
                self._verify(chunk, sent, total)
            return total
        finally:
            sent.unpersist()

    def _verify(self, chunk: Chunk, sent: DataFrame, total: Total) -> None:
        """Raise HoldfastError, with the entries that differ, unless all that was sent can be
        read."""
        identity = list(IDENTITY[chunk.table])
        there = chunk.entries(self.spark, at=self.location)
        arrived = there.join(sent.select(*identity), identity, "left_semi")
        if Total.of(arrived, chunk.table) == total:
            return
        content = [name for name in CONTENT[chunk.table] if name not in identity]
        found = arrived.select(
            *identity, *(functions.col(name).alias(f"found_{name}") for name in content)
        )
        same = [functions.col(name).eqNullSafe(functions.col(f"found_{name}")) for name in content]
        differing = sent.join(found, identity, "left").filter(~reduce(and_, same))
        if chunk.table == "task_store":
            differing = differing.filter(_is_live())  # some have just expired
        count = differing.count()
        if count:
            named = "; ".join(
                "/".join(map(str, (row[name] for name in identity)))
                for row in differing.limit(NAMED).collect()
            )
            raise HoldfastError(
                f"{count:,} of {total.count:,} entries in the target differ from those sent: "
                f"{named}",
                hint="another writer may have changed them; run the command again to resume with "
                "them",
            )

    def missing_assets(self, needed: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the assets, by name and URI, that cannot be written there yet."""
        infos = self.store.execute(c.ListAssets())
        known = {info.name for info in infos if info.orphaned_at is None}
        return sorted(asset for asset in needed if asset[0] not in known)

    def declare(self, assets: Iterable[tuple[str, str]]) -> None:
        for name, uri in assets:
            self.store.execute(c.DeclareAsset(name, uri))


def check_declared(missing: Sequence[tuple[str, str]], declare: bool) -> None:
    """Raise UnknownAsset for missing assets, unless they may be declared."""
    if missing and not declare:
        names = ", ".join(f"`{name}`" for name, _ in missing[:NAMED])
        more = f" and {len(missing) - NAMED:,} more" if len(missing) > NAMED else ""
        raise UnknownAsset(
            f"these assets are unknown or inactive in the target: {names}{more}; nothing was "
            "written",
            hint="declare them with --declare, or first run the DAGs that use them there",
        )


def _is_live() -> Column:
    until = functions.col("expires_at")
    return until.isNull() | (until > functions.current_timestamp())
