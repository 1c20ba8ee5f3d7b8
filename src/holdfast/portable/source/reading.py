"""Reading a table of the store, in parallel ranges."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.errors import InvalidInput
from holdfast.portable.report_tables import LARGEST_SLICE, MOST_RANGES
from holdfast.portable.source.error_display import plainly
from holdfast.portable.source.location import Location, installed_here
from holdfast.portable.source.predicate import parse_where
from holdfast.portable.source.served import Served

DEFAULT_PARTITIONS = 8
ROWS = 20_000
"""Number of rows that justify a partition of their own."""
FIRST_SLICE = 2_000
BYTES = 8 * 2**20
"""Approximate size of one response of a server."""


class Reading(NamedTuple):
    """A query: some columns of a table, for the rows that pass the tests."""

    location: Location
    table: str
    schema: StructType
    tests: tuple[dict[str, Any], ...]

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a Scan command, as in the wire format."""
        return {"table": self.table, "columns": self.schema.fieldNames(), "tests": self.tests}

    @property
    def arrow_schema(self) -> pa.Schema:
        return to_arrow_schema(self.schema, timezone="UTC")


class Range(InputPartition):
    """A range of rows, from after one row's identity up to and including another's; an empty bound
    stands for the first or last row."""

    def __init__(self, after: Sequence[Any], until: Sequence[Any], plan: str) -> None:
        self.after = tuple(after)
        self.until = tuple(until)
        self.plan = plan
        """Identifies the plan; ranges of one plan belong together."""


class TableReader(DataSourceReader):
    """Reads the rows of a query.

    It accepts none of Spark's filters: the result for one filter would be returned by Spark 4.3 for
    every other query on the same DataFrame, whatever its filters.
    """

    def __init__(self, reading: Reading, partitions: int) -> None:
        self._reading = reading
        self._partitions = partitions

    @plainly()
    def partitions(self) -> Sequence[InputPartition]:
        bounds = plan(self._reading, self._partitions)
        name = uuid.uuid4().hex
        return [
            Range(after, until, name)
            for after, until in zip([(), *bounds], [*bounds, ()], strict=True)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        with plainly():
            if self._reading.location.is_server:
                yield from served_batches(self._reading, partition)
                return
            with installed_here():
                from holdfast.spark.source.database import batches
            yield from batches(self._reading, partition)


def make_reader(
    location: Location, table: str, schema: StructType, options: Mapping[str, str]
) -> DataSourceReader:
    """Return a reader of the schema's columns of a table, with the options `where` and
    `partitions`."""
    where = options.get("where")
    tests = parse_where(table, where) if where is not None else ()
    said = options.get("partitions", str(DEFAULT_PARTITIONS))
    if not said.isdecimal() or not 1 <= int(said) <= MOST_RANGES:
        raise InvalidInput(
            f"partitions is {said!r}", hint=f"give a number from 1 to {MOST_RANGES:,}"
        )
    return TableReader(Reading(location, table, schema, tests), int(said))


def plan(reading: Reading, partitions: int) -> list[Sequence[Any]]:
    """Return the bounds between the ranges."""
    fields: dict[str, Any] = {"table": reading.table, "most": partitions, "rows": ROWS}
    if reading.location.is_server:
        with closing(Served(reading.location)) as server:
            return list(server.ask("PlanScan", **fields))
    with installed_here():
        from holdfast.spark.source.database import bounds
    return list(bounds(reading.location, **fields))


def served_batches(reading: Reading, part: Range) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, slice by slice. Each slice is consistent in itself."""
    after: Sequence[Any] | None = part.after
    bounds = {**reading.fields, "until": part.until}
    limit = FIRST_SLICE
    with closing(Served(reading.location)) as server:
        while after is not None:
            answer = server.ask("Scan", **bounds, after=after, limit=limit)
            batch = record_batch(answer["columns"], reading.arrow_schema)
            yield batch
            after = answer["last"]
            bytes_per_row = max(1, batch.nbytes // max(1, batch.num_rows))
            limit = min(LARGEST_SLICE, max(1, BYTES // bytes_per_row))


def record_batch(columns: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return columns of values as an Arrow batch for Spark; times are microseconds since 1970."""
    arrays = [
        pa.array(values, pa.int64()).cast(kind)
        if pa.types.is_timestamp(kind)
        else pa.array(values, kind)
        for values, kind in zip(columns, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
