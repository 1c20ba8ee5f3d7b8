"""The chunks of a transfer: each is one Spark job, and one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

import msgspec
from pyspark.sql import DataFrame, SparkSession

from holdfast.portable.report_tables import LONGEST_LIST
from holdfast.portable.source.location import Location
from holdfast.portable.source.reading import DEFAULT_PARTITIONS
from holdfast.portable.source.reading import ROWS as ROWS_OF_PARTITION
from holdfast.spark.transfer.filter import entries, equals, literal

ROWS: Final = 50_000
"""Approximate number of entries in a chunk; a run or an asset is never split."""
MOST: Final = 500
"""Approximate maximum number of chunks of a table: those of a large one are larger."""


class Chunk(msgspec.Struct, frozen=True):
    """Entries of a table that match a condition."""

    table: str
    name: str
    where: str
    rows: int
    """Their number at the time of planning, or an approximation."""

    @property
    def label(self) -> str:
        return f"{self.table} {self.name}"

    def entries(
        self, spark: SparkSession, *, at: Location | None = None, resolve: bool = False
    ) -> DataFrame:
        """Return the entries that match in the registered store now, or in the one `at` a
        location."""
        partitions = min(DEFAULT_PARTITIONS, self.rows // ROWS_OF_PARTITION + 1)
        return entries(
            *(spark, self.table, self.where), at=at, resolve=resolve, partitions=partitions
        )


def planned(spark: SparkSession, selection: dict[str, str], rows: int = ROWS) -> list[Chunk]:
    """Return the chunks of a selection in the registered store now; empty if it has no entries."""
    chunks = []
    for table, where in selection.items():
        find = _task_chunks if table == "task_store" else _asset_chunks
        found = list(find(spark, where, rows))
        chunks += [
            Chunk(
                table, f"{number}-of-{len(found)}", " AND ".join(filter(None, (where, own))), size
            )
            for number, (own, size) in enumerate(found, start=1)
        ]
    return chunks


def _task_chunks(spark: SparkSession, where: str, rows: int) -> Iterator[tuple[str, int]]:
    """Yield conditions with their number of entries: for as many whole dags as fit into a chunk,
    and for ranges of runs of a dag that does not fit."""
    found = entries(spark, "task_store", where, columns="dag_id, run_id, task_id")
    counted = sorted(tuple(row) for row in found.groupBy("dag_id", "run_id").count().collect())
    dags = {
        dag: [(run, count) for _, run, count in runs]
        for dag, runs in groupby(counted, key=lambda row: row[0])
    }
    sizes = {dag: sum(count for _, count in runs) for dag, runs in dags.items()}
    rows = max(rows, sum(sizes.values()) // MOST)
    small = [(dag, size) for dag, size in sizes.items() if size <= rows]
    for some, size in _packed(small, rows, LONGEST_LIST):
        yield _among("dag_id", some), size
    for dag, runs in dags.items():
        if sizes[dag] > rows:
            for some, size in _packed(runs, rows, len(runs)):
                ends = f"run_id >= {literal(some[0])} AND run_id <= {literal(some[-1])}"
                yield f"{equals('dag_id', dag)} AND {ends}", size


def _asset_chunks(spark: SparkSession, where: str, rows: int) -> Iterator[tuple[str, int]]:
    found = entries(spark, "asset_store", where, columns="asset")
    counted = sorted(tuple(row) for row in found.groupBy("asset").count().collect())
    rows = max(rows, sum(count for _, count in counted) // MOST)
    for some, size in _packed(counted, rows, LONGEST_LIST):
        yield _among("asset", some), size


def _packed(
    items: Iterable[tuple[str, int]], rows: int, most: int
) -> Iterator[tuple[list[str], int]]:
    """Yield groups of consecutive names that have at most `rows` rows together, but at least one
    name; and their number of rows."""
    pack: list[str] = []
    size = 0
    for name, count in items:
        if pack and (size + count > rows or len(pack) == most):
            yield pack, size
            pack, size = [], 0
        pack.append(name)
        size += count
    if pack:
        yield pack, size


def _among(column: str, names: list[str]) -> str:
    return f"{column} IN ({', '.join(map(literal, names))})"
