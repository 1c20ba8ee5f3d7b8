"""The tables for reports: their columns, and the identity of their rows.

Plain Python, because Spark ships it to workers that do not have Holdfast installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.errors import InvalidInput
from holdfast.portable.identifier import is_uuid

TEXT: Final = "text"
LONG_TEXT: Final = "long text"
"""Text that is not compared: values, and text that people and programs wrote."""
INTEGER: Final = "integer"
LONG: Final = "long"
DOUBLE: Final = "double"
TIME: Final = "time"
"""Microseconds since 1970 in UTC, where represented as a number."""

_ASSET: Final = {"asset_id": LONG, "asset": TEXT, "uri": TEXT}
_INSTANCE: Final = {"dag_id": TEXT, "run_id": TEXT, "task_id": TEXT, "map_index": INTEGER}
_WRITTEN: Final = {"updated_at": TIME, "writer": LONG_TEXT}
_RECORD: Final = {
    "number": LONG,
    "name": LONG_TEXT,
    "kind": LONG_TEXT,
    "cursor": LONG_TEXT,
    "type": LONG_TEXT,
    "from": LONG_TEXT,
    "to": LONG_TEXT,
    "rows": LONG,
    "beyond": LONG,
    "started_at": TIME,
    "seconds": DOUBLE,
    "checks": LONG_TEXT,
    "quarantined": LONG,
    "quarantine": LONG_TEXT,
    "directories": LONG_TEXT,
}
_LOAD: Final = {**_ASSET, "key": TEXT, "version": LONG, **_RECORD, **_WRITTEN}

TABLES: Final[dict[str, dict[str, str]]] = {
    "task_store": {
        **_INSTANCE,
        "key": TEXT,
        "value": LONG_TEXT,
        "version": LONG,
        "updated_at": TIME,
        "expires_at": TIME,
        "writer": LONG_TEXT,
    },
    "asset_store": {**_ASSET, "key": TEXT, "value": LONG_TEXT, "version": LONG, **_WRITTEN},
    "asset_history": {
        **_ASSET,
        "key": TEXT,
        "version": LONG,
        "previous": LONG,
        "value": LONG_TEXT,
        **_WRITTEN,
    },
    "loads": _LOAD,
    "last_loads": _LOAD,
    "runs": {
        "dag_id": TEXT,
        "run_id": TEXT,
        "kind": TEXT,
        "state": TEXT,
        "logical_date": TIME,
        "data_interval_start": TIME,
        "data_interval_end": TIME,
        "conf": LONG_TEXT,
        "created_at": TIME,
        "started_at": TIME,
        "ended_at": TIME,
    },
    "task_instances": {
        **_INSTANCE,
        "state": TEXT,
        "attempt": INTEGER,
        "failures": INTEGER,
        "interruptions": INTEGER,
        "ready_at": TIME,
        "started_at": TIME,
        "ended_at": TIME,
        "error": LONG_TEXT,
    },
    "task_references": {**_INSTANCE, "key": TEXT, "value": LONG_TEXT, "expires_at": TIME},
    "asset_references": {**_ASSET, "key": TEXT, "value": LONG_TEXT},
    "history_references": {**_ASSET, "key": TEXT, "version": LONG, "value": LONG_TEXT},
    "staged_references": {**_ASSET, "key": TEXT, "value": LONG_TEXT},
    "queued_references": {
        **_INSTANCE,
        "asset": TEXT,
        "uri": TEXT,
        "key": TEXT,
        "value": LONG_TEXT,
        "due_at": TIME,
        "tries": INTEGER,
        "error": LONG_TEXT,
    },
}
"""Each table's columns and their kinds, in the order in which they are shown."""

REFERENCES: Final = (
    "task_references",
    "asset_references",
    "history_references",
    "staged_references",
    "queued_references",
)
"""Tables of everything that names an object in the workers' storage, including expired entries, and
of the queue of objects that are reserved or to be deleted."""

LOADS: Final = ("loads", "last_loads")
"""The records of incremental loads, as far back as the history goes, and the last one of each key.
"""

ENTRIES: Final = ("task_store", "asset_store", "asset_history", *LOADS, *REFERENCES[:3])
"""The tables of entries, which a custom backend holds outside the database."""

IDENTITIES: Final[dict[str, tuple[type, ...]]] = {
    "task_store": (str, str),
    "asset_store": (int, str),
    "asset_history": (int, str, int),
    "loads": (int, str, int),
    "last_loads": (int, str),
    "runs": (str, str),
    "task_instances": (str,),
    "task_references": (str, str),
    "asset_references": (int, str),
    "history_references": (int, str, int),
    "staged_references": (str, int, str),
    "queued_references": (int,),
}
"""The types of the parts of a row's identity, which stays the same when the row is deleted and
written again. Key ranges are ranges of identities."""

BY_TASK_INSTANCE: Final = ("task_store", "task_instances", "task_references", "staged_references")
"""Tables where the identity of a row begins with a `ti_id`."""

LARGEST_SLICE: Final = 50_000
"""Maximum number of rows that are read at once."""
MOST_RANGES: Final = 10_000
COMPARISONS: Final = ("=", "<", "<=", ">", ">=")
LONGEST_LIST: Final = 256
MOST_TESTS: Final = 32
"""Maximum number of tests in a scan."""


def check_table(table: str | None) -> str:
    """Return the table's name; raise InvalidInput if there is no such table."""
    if table in TABLES:
        return table
    said = f"there is no table `{table}`" if table else "no table is given"
    raise InvalidInput(said, hint=f"the tables are {', '.join(TABLES)}")


def kind_of(table: str, column: str) -> str:
    """Return the kind of a column; raise InvalidInput if there is no such column."""
    kind = TABLES[table].get(column)
    if kind is None:
        raise InvalidInput(
            f"the table `{table}` has no column `{column}`",
            hint=f"it has {', '.join(TABLES[table])}",
        )
    return kind


def is_derived(table: str, column: str) -> bool:
    """Return whether a column is part of the rows' value, which the database cannot look into."""
    return table in LOADS and column in _RECORD


def stored_columns(table: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to query from the database in order to produce these."""
    own = tuple(column for column in columns if not is_derived(table, column))
    return (*own, "value") if table in LOADS else own


def check_columns(table: str, columns: Sequence[str]) -> None:
    """Raise InvalidInput unless there are columns, each is known, and none is repeated."""
    check_table(table)
    for column in columns:
        kind_of(table, column)
    if not columns or len(set(columns)) != len(columns):
        raise InvalidInput(f"the columns of the table `{table}` must be given once each: {columns}")


def check_test(table: str, column: str, operator: str, values: Sequence[int | str]) -> None:
    """Raise InvalidInput unless the database can evaluate this test of a column."""
    if not is_testable(table, column, operator, values):
        raise InvalidInput(
            f"rows of `{table}` cannot be selected by {column} {operator} {values!r}"
        )


def is_testable(table: str, column: str, operator: str, values: Sequence[int | str]) -> bool:
    kind = kind_of(table, column)
    if is_derived(table, column):
        return False
    if operator in ("null", "not null"):
        return not values
    expected = str if kind == TEXT else int
    if kind == LONG_TEXT or not all(type(value) is expected for value in values):
        return False
    bits = 31 if kind == INTEGER else 63
    if expected is int and not all(-(2**bits) <= int(value) < 2**bits for value in values):
        return False
    if operator == "in":
        return 0 < len(values) <= LONGEST_LIST
    return len(values) == 1 and (operator in COMPARISONS or (operator, kind) == ("starts", TEXT))


def check_identity(table: str, identity: Sequence[int | str]) -> None:
    """Raise InvalidInput unless this could be the identity of a row of the table."""
    if (
        tuple(map(type, identity)) != IDENTITIES[table]
        or not all(isinstance(part, str) or -(2**63) <= part < 2**63 for part in identity)
        or (table in BY_TASK_INSTANCE and not is_uuid(str(identity[0])))
    ):
        raise InvalidInput(f"{identity!r} is not the identity of a row of the table `{table}`")
