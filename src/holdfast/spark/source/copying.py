"""Reading a PostgreSQL table with COPY, which ADBC converts to Arrow without Python.

Columns that many rows share, such as the names of the task instance that owns the entries, are not
copied with each row: they are looked up once per batch, in the same snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any
from uuid import UUID

import pyarrow as pa
import sqlalchemy as sa
from psycopg.sql import Literal

from holdfast import commands as c
from holdfast.spark.source.snapshot import BEGIN, Snapshot, shared_snapshot
from holdfast.stores.sql.compiled import CompiledStatements
from holdfast.stores.sql.dialects import Dialect
from holdfast.stores.sql.operations.table_scans import scan_query
from holdfast.stores.sql.statements import table_scans as s

BYTES = str(2 * 2**20)
"""Approximate size of a batch."""
BY_INDEX = (
    "SELECT set_config('enable_seqscan', 'off', true), "
    "set_config('max_parallel_workers_per_gather', '0', true)"
)
"""PostgreSQL would otherwise scan the whole table for each range, and with parallel workers."""


def copied(
    engine: sa.Engine, dialect: Dialect, scan: c.Scan, schema: pa.Schema, plan: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, in the snapshot that the running query uses for the plan."""
    compiled = CompiledStatements(engine.dialect)
    text, params, *_ = compiled.prepare(scan_query(scan, dialect, s.scan_own), None)
    # COPY takes no parameters.
    query = text % {name: Literal(value).as_string() for name, value in params.items()}
    snapshot = shared_snapshot(engine, plan)
    owners = Owners(compiled, scan.table, schema, snapshot)
    connection = _copying(engine)
    try:
        with connection.cursor() as cursor, snapshot.kept():
            cursor.execute(BEGIN)
            cursor.execute(f"SET TRANSACTION SNAPSHOT '{snapshot.id}'")
            if scan.after or scan.until:
                cursor.execute(BY_INDEX)
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": BYTES})
            cursor.execute(query)
            for batch in cursor.fetch_record_batch():
                yield owners.completed(batch)
            cursor.execute("COMMIT")
    except BaseException:
        _copying.cache_clear()
        connection.close()
        raise


@cache
def _copying(engine: sa.Engine) -> Any:
    """Return a connection for COPY. It is cached, because it looks up all types of the database."""
    from adbc_driver_postgresql import dbapi

    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    return dbapi.connect(url, autocommit=True)


class Owners:
    """The columns of a row that come from its owner, a task instance or asset."""

    def __init__(
        self, compiled: CompiledStatements, table: str, schema: pa.Schema, snapshot: Snapshot
    ) -> None:
        self._compiled = compiled
        self._table = table
        self._schema = schema
        self._columns = s.owners_columns(table, schema.names)
        self._snapshot = snapshot

    def completed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with all columns, from rows with their own columns and their owner's id."""
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        if self._columns:
            owner = arrays[s.OWNER]
            # Arrow cannot compare UUIDs in their extension type.
            plain = owner.storage if isinstance(owner, pa.ExtensionArray) else owner
            ids = plain.dictionary_encode()
            found = self._look_up(ids.dictionary.to_pylist())
            arrays |= {name: column.take(ids.indices) for name, column in found.items()}
        chosen = [arrays[field.name].cast(field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(chosen, schema=self._schema)

    def _look_up(self, ids: list[Any]) -> dict[str, pa.Array]:
        """Return the columns for each of the owners, in their order."""
        known = [UUID(bytes=id) if isinstance(id, bytes) else id for id in ids]
        query = s.owned(self._table, self._columns), {"ids": known}
        text, params, *_ = self._compiled.prepare(query, None)
        rows = self._snapshot.rows(text, params)
        return {
            name: pa.array([row[n] for row in rows], self._schema.field(name).type)
            for n, name in enumerate(self._columns)
        }
