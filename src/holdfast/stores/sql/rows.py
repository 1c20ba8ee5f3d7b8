"""Conversion between rows and the values of `holdfast.model.entry`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.entry import AssetInfo, Entry, Expired, TaskWriter, Version, Writer, signature
from holdfast.model.scope import AssetScope, StoreScope, TaskScope

Row = Sequence[Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_decode_writer: Callable[[str], Writer] = msgspec.json.Decoder(Writer).decode
_encode_writer = msgspec.json.Encoder().encode


def micros(time: datetime | None) -> int | None:
    """Return the column of a time. Raise InvalidInput for one that could not be read back."""
    if time is None:
        return None
    if time.tzinfo is None:
        raise InvalidInput(f"the time {time} has no time zone", hint="add tzinfo=UTC")
    found = (time - _EPOCH) // _MICROSECOND
    if not _FIRST <= found <= _LAST:
        raise InvalidInput(f"the time {time} is out of range in UTC", hint="years 1 to 9999")
    return found


def microseconds(span: timedelta | None) -> int | None:
    return None if span is None else span // _MICROSECOND


def time_of(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)


def instant(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def digest(name: str) -> str:
    """Return the digest that indexes a name or URI, which may be too long for an index."""
    return hashlib.sha256(name.encode()).hexdigest()


def writer_column(writer: Writer, scope: StoreScope) -> str | None:
    """Return the writer's column, which is NULL if a task instance writes its own entries."""
    if isinstance(writer, TaskWriter) and writer.scope == scope:
        return None
    return writer_text(writer)


def writer_text(writer: Writer) -> str:
    """Return the writer as an entry records it."""
    return _encode_writer(signature(writer)).decode()


def _writer(column: str | None, scope: StoreScope) -> Writer:
    if column is not None:
        return _decode_writer(column)
    assert isinstance(scope, TaskScope)
    return TaskWriter(scope)


def entry(row: Row, scope: StoreScope) -> Entry[str]:
    key, value, version, updated_at, writer, expires_at = row[:6]
    return Entry(
        key, value, version, instant(updated_at), _writer(writer, scope), time_of(expires_at)
    )


def version(row: Row, scope: AssetScope) -> Version[str]:
    number, value, updated_at, writer, previous = row
    return Version(number, value, instant(updated_at), _writer(writer, scope), previous)


def expired(row: Row) -> Expired:
    id, dag_id, run_id, task_id, map_index, key, expires_at = row
    return Expired(id, TaskScope(dag_id, run_id, task_id, map_index), key, instant(expires_at))


def assets(rows: Iterable[Row]) -> tuple[AssetInfo, ...]:
    """Return the assets from one row for each asset and DAG that declares it, ordered by asset."""
    return tuple(
        AssetInfo(
            *(asset[0], asset[1], asset[2], bool(asset[3])),
            dags=tuple(row[5] for row in group if row[5] is not None),
            orphaned_at=time_of(asset[4]),
        )
        for asset, group in groupby(rows, key=lambda row: tuple(row[:5]))
    )
