"""The data source of entries in their stored form.

An offloaded value is read as its reference, and a user's value that looks like one is distinct from
it. `format("holdfast")` handles neither, so that nobody creates a reference by accident.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from holdfast import commands as c
from holdfast.connection import connect
from holdfast.errors import InvalidSettings, UnknownAsset, UnknownTaskInstance
from holdfast.model.entry import Entry
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import is_reference
from holdfast.portable.report_tables import check_table
from holdfast.portable.source.datasource import READING, HoldfastSource
from holdfast.portable.source.location import Location, locate
from holdfast.portable.source.reading import make_reader
from holdfast.portable.source.writing import make_writer
from holdfast.spark.source.database import open_location
from holdfast.store import Store
from holdfast.stores.offload.configuration import Offloading
from holdfast.stores.offload.reference_store import entries_of
from holdfast.stores.sql.rows import writer_column

FORMAT: Final = "holdfast_kept"
RESERVED: Final = '{"__holdfast_'
"""The beginning of a value that is reserved, or looks like it."""
AT_ONCE: Final = 100
"""Number of entries that are requested, and held, together: their objects may be large."""
THREADS: Final = 16


class KeptSource(HoldfastSource):
    """`format("holdfast_kept")`. With the option `resolve` it reads offloaded values in full."""

    offloading: ClassVar[Offloading] = Offloading()
    reading = (*READING, "resolve")

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def reader(self, schema: StructType) -> DataSourceReader:
        table = check_table(self.options.get("table"))
        location = locate(self.options, self.default)
        rows = make_reader(location, table, schema, self.options)
        if "value" not in schema.fieldNames():
            return rows
        resolving = self.offloading if self.options.get("resolve") == "true" else None
        return KeptReader(rows, location, resolving)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        table = check_table(self.options.get("table"))
        location = locate(self.options, self.default)
        return make_writer(location, table, schema, overwrite, as_kept=True)


def register_kept(spark: SparkSession, location: Location, offloading: Offloading) -> None:
    """Register the source with a session whose workers have Holdfast installed."""
    its = {"default": location, "offloading": offloading}
    spark.dataSource.register(type("RegisteredKeptSource", (KeptSource,), its))


class KeptReader(DataSourceReader):
    """Reads rows with their shown values, and requests the stored form of those that need it."""

    def __init__(
        self, rows: DataSourceReader, location: Location, resolving: Offloading | None
    ) -> None:
        self._rows = rows
        self._location = location
        self._resolving = resolving

    def partitions(self) -> Sequence[InputPartition]:
        return self._rows.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with ExitStack() as stack:
            lookup: EntryLookup | None = None
            batch: Any
            for batch in self._rows.read(partition):
                if not pc.any(pc.starts_with(batch.column("value"), RESERVED)).as_py():
                    yield batch
                    continue
                if lookup is None:
                    store = open_kept(self._location)
                    if self._resolving:
                        store = self._resolving.over(store)
                    stack.callback(store.close)
                    lookup = EntryLookup(store, stack.enter_context(ThreadPoolExecutor(THREADS)))
                for first in range(0, batch.num_rows, AT_ONCE):
                    yield lookup.settled(batch.slice(first, AT_ONCE))
            if lookup is not None and self._resolving is not None:
                lookup.check_resolved()


def open_kept(location: Location) -> Store:
    """Open the store at a location, without a worker-side backend in front of it."""
    if location.is_server:
        return entries_of(connect(location.url, token=location.token).store)
    return open_location(location)


class EntryLookup:
    """Requests the entries of rows whose shown value is ambiguous."""

    def __init__(self, store: Store, pool: ThreadPoolExecutor) -> None:
        self._store = store
        self._pool = pool
        self._unresolved = ""

    def settled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows in their stored form, without those that no longer exist."""
        rows = list(self._pool.map(self._settled, batch.to_pylist()))
        return pa.RecordBatch.from_pylist([row for row in rows if row], schema=batch.schema)

    def check_resolved(self) -> None:
        if self._unresolved:
            raise InvalidSettings(
                f"{self._unresolved} is offloaded, and no backend that can read it is configured "
                "here",
                hint="set [workers] state_backend as in the configuration of the pipelines",
            )

    def _settled(self, row: dict[str, Any]) -> dict[str, Any] | None:
        if not row["value"].startswith(RESERVED):
            return row
        scope = _scope(row)
        entry = self._entry(scope, row["key"])
        if entry is None:
            return None
        if is_reference(entry.value):
            self._unresolved = f"`{row['key']}` of {scope}"
        row |= {
            "value": entry.value,
            "version": entry.version,
            "updated_at": entry.updated_at,
            "writer": writer_column(entry.writer, scope),
        }
        return row | ({"expires_at": entry.expires_at} if "expires_at" in row else {})

    def _entry(self, scope: StoreScope, key: str) -> Entry[str] | None:
        try:
            return self._store.execute(c.GetEntry(scope, key))
        except (UnknownTaskInstance, UnknownAsset):
            return None


def _scope(row: dict[str, Any]) -> StoreScope:
    if "asset" in row:
        return AssetScope(name=row["asset"])
    return TaskScope(row["dag_id"], row["run_id"], row["task_id"], row["map_index"])
