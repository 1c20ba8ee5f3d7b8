"""The record of each incremental load in the asset store, next to its watermark.

A load that succeeds writes it together with the watermark, in one transaction and as one version,
under the watermark's key and `RECORD_SUFFIX`. The history of that entry is the list of loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import compress
from typing import Any, Final, TypeAlias

import msgspec

RECORD_SUFFIX: Final = "/load"
BACKFILLS: Final = "/backfills/"
"""The key infix of backfills: a backfill that counts has an entry `orders/backfills/NAME`."""

Cell: TypeAlias = int | float | str | None

_TAG_FIELD: Final = "holdfast"
_TAG: Final = "load"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class LoadRecord(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag=_TAG,
    tag_field=_TAG_FIELD,
    rename={"from_": "from"},
):
    """One load that succeeded."""

    name: str
    """The name of the directory in which the load wrote, without its parents."""
    number: int
    """The number of the load: later loads have higher numbers. 0 for a backfill."""
    kind: str
    """`load`, which moved the watermark, or `backfill`, which did not."""
    cursor: str
    type: str
    """The cursor's type, as the watermark names it."""
    from_: str | int | None
    """The start of the range; None: it has no start."""
    to: str | int | None
    rows: int | None
    """None where they were not counted."""
    started_at: str
    seconds: float
    beyond: int = 0
    """The number of rows beyond the end, which are left for a later load."""
    directories: tuple[str, ...] = ()
    checks: dict[str, int] = {}
    """The number of rows that failed each check."""
    quarantined: int = 0
    quarantine: str | None = None
    """The directory of the rows that failed a check."""


def as_json(record: LoadRecord) -> dict[str, Any]:
    """Return the value to store."""
    value: dict[str, Any] = msgspec.to_builtins(record)
    return value


def record_in(value: Any) -> LoadRecord | None:
    """Return the record in a stored value; None where the value is something else."""
    if not isinstance(value, dict) or value.get(_TAG_FIELD) != _TAG:
        return None
    try:
        return msgspec.convert(value, LoadRecord)
    except msgspec.ValidationError:
        return None


def record_of(text: str | None) -> LoadRecord | None:
    """Return the record in the JSON text of a value; None where it is something else."""
    return None if text is None else record_in(msgspec.json.decode(text))


def cells(record: LoadRecord) -> dict[str, Cell]:
    """Return the record as columns of the tables of loads."""
    return {
        "number": record.number,
        "name": record.name,
        "kind": record.kind,
        "cursor": record.cursor,
        "type": record.type,
        "from": None if record.from_ is None else str(record.from_),
        "to": None if record.to is None else str(record.to),
        "rows": record.rows,
        "beyond": record.beyond,
        "started_at": micros(record.started_at),
        "seconds": record.seconds,
        "checks": _text(record.checks),
        "quarantined": record.quarantined,
        "quarantine": record.quarantine,
        "directories": _text(record.directories),
    }


def expand_records(columns: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """Return columns of entries together with those of the records in their `value`.

    Rows whose value is not a record are left out.
    """
    records = [record_of(text) for text in columns["value"]]
    made = [cells(record) for record in records if record]
    kept = {name: tuple(compress(values, records)) for name, values in columns.items()}
    parts = LoadRecord.__struct_encode_fields__
    return kept | {name: tuple(row[name] for row in made) for name in parts}


def micros(moment: str | int | None) -> int | None:
    """Return text that is a time or a date as microseconds since 1970 in UTC; None for other text.

    Text without a time zone is read as UTC.
    """
    with suppress(TypeError, ValueError):
        found = datetime.fromisoformat(moment)  # type: ignore[arg-type]
        return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    return None


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
