"""Tables and bulk loads directly in the database, where Holdfast is installed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from holdfast import commands as c
from holdfast.connection import open_store, rules
from holdfast.errors import HoldfastError, InvalidInput, InvalidUrl
from holdfast.model.load_record import expand_records
from holdfast.model.value import shown
from holdfast.portable.json_rules import LITERAL
from holdfast.portable.report_tables import LOADS, stored_columns
from holdfast.portable.source.location import Location
from holdfast.portable.source.reading import Range, Reading, record_batch
from holdfast.settings import load
from holdfast.store import Store
from holdfast.stores.sql.compiled import CompiledStatements
from holdfast.stores.sql.dialects import Dialect, connect, make_engine, parse_url
from holdfast.stores.sql.failures import is_driver_error, translate
from holdfast.stores.sql.operations.table_scans import scan_query
from holdfast.stores.sql.statements import table_scans as s

ROWS = 10_000
"""Number of rows that are fetched at once."""

ESCAPED = f'{{"{LITERAL}"'
"""The beginning of a stored value that is escaped, because it looks like a reserved one."""

_Loading: TypeAlias = c.StartLoad | c.AddToLoad | c.FinishLoad | c.DropLoad


def open_location(location: Location) -> Store:
    """Open the store in a database, with the configured backend in front of it.

    Raise InvalidUrl if there is no such SQLite file on this machine.
    """
    url, dialect = parse_url(location.url)
    if dialect.embedded and not Path(url.database or "").exists():
        raise InvalidUrl(
            f"the file {url.database} does not exist on the machine where Spark reads it",
            hint="a SQLite file is read on the machine that has it; `holdfast db migrate` creates "
            "a new store",
        )
    settings = load()
    database = msgspec.structs.replace(settings.database, url=location.url)
    section = settings.state_store
    if location.backend:
        section = msgspec.structs.replace(section, backend=location.backend)
    settings = msgspec.structs.replace(settings, database=database, state_store=section)
    return open_store(settings, retry_window=settings.core.retry_window)


class Stored:
    """A database, with the interface of `Served` for a server."""

    def __init__(self, location: Location) -> None:
        self._store = open_location(location)

    def ask(self, command: str, *, once: bool = False, **fields: Any) -> Any:
        """Execute a command of a bulk load and return the result. It executes once, by the
        database's transaction."""
        try:
            loading = msgspec.convert({"command": command, **fields}, type=_Loading)
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, HoldfastError):
                raise error.__cause__ from None
            raise InvalidInput(f"not a command: {error}") from None
        return self._store.execute(cast(c.Command[Any], loading))

    def close(self) -> None:
        self._store.close()


def largest_value() -> int:
    """Return the maximum length of a value's JSON text; 0: any length."""
    return rules(load()).max_value_bytes


def bounds(location: Location, **fields: Any) -> tuple[Sequence[Any], ...]:
    """Return the bounds between ranges; raise NotSupported if a custom backend holds the
    entries."""
    with closing(open_location(location)) as store:
        return store.execute(c.PlanScan(**fields))


def batches(reading: Reading, part: Range) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, as they are at one moment; on PostgreSQL, at the same moment for
    all ranges of a query."""
    url, dialect, engine = _engine(reading.location.url)
    fields = {**reading.fields, "after": part.after, "until": part.until, "limit": 1}
    scan = msgspec.convert(fields, c.Scan)
    schema = _stored_schema(reading)
    try:
        if dialect.driver.startswith("postgresql"):
            from holdfast.spark.source.copying import copied

            found = copied(engine, dialect, scan, schema, part.plan)
        else:
            found = _fetched(engine, dialect, scan, schema)
        finish = _expand_records if scan.table in LOADS else _unescaped
        for batch in found:
            yield finish(batch, reading.arrow_schema)
    except HoldfastError:
        raise
    except Exception as error:
        if not is_driver_error(error):
            raise
        raise translate(error, url) from error


@cache
def _engine(url: str) -> tuple[sa.URL, Dialect, sa.Engine]:
    """Return the engine for a URL, cached for all ranges that this worker reads."""
    parsed, dialect = parse_url(url)
    return parsed, dialect, make_engine(parsed, dialect)


def _fetched(
    engine: sa.Engine, dialect: Dialect, scan: c.Scan, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    with closing(connect(engine)) as connection:
        now = time.time_ns() // 1000 if dialect.embedded else None
        query = scan_query(scan, dialect, s.scan)
        text, params, *_ = CompiledStatements(engine.dialect).prepare(query, now)
        cursor = dialect.streaming_cursor(connection.driver_connection)
        cursor.execute(text, params)
        while rows := cursor.fetchmany(ROWS):
            yield record_batch(list(zip(*rows, strict=True)), schema)


def _stored_schema(reading: Reading) -> pa.Schema:
    """Return the schema of the columns to query from the database."""
    made = {field.name: field for field in reading.arrow_schema}
    names = stored_columns(reading.table, reading.schema.fieldNames())
    return pa.schema([made.get(name, pa.field(name, pa.string())) for name in names])


def _expand_records(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the records of loads, without rows whose value is not a record."""
    found = expand_records(batch.to_pydict())
    arrays = [
        pa.array(found[name], kind) for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _unescaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with values as their writers gave them."""
    at = schema.get_field_index("value")
    if at < 0 or not pc.any(pc.starts_with(batch.column(at), ESCAPED)).as_py():
        return batch
    values = [text and shown(text) for text in batch.column(at).to_pylist()]
    return batch.set_column(at, schema.field(at), pa.array(values, schema.types[at]))
