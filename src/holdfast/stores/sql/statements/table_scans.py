"""Statements for table scans, by ranges of the rows' identities.

Each is built once for a combination of columns, tests by their operators, and bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from holdfast.model.load_record import RECORD_SUFFIX
from holdfast.model.value import IN_PLACE_PREFIX, REFERENCE_PREFIX
from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import now
from holdfast.stores.sql.statements.entries import measure
from holdfast.stores.sql.statements.scope_tables import Select

OWNER = "owner"
LARGE = frozenset({"value", "conf", "error"})
"""Columns of any length. No table has two of them."""
_CACHE_SIZE = 256
"""Size of the statement caches: columns and tests may come in any number of orders."""


class ScanShape(NamedTuple):
    """Everything about a scan that its statement depends on."""

    table: str
    columns: tuple[str, ...]
    tests: tuple[tuple[str, str, int], ...]
    """Tests without their values: column, operator, number of values."""
    after: bool
    until: bool
    by_rows: bool
    """Whether the bounds are compared as rows (`Dialect.compares_rows`)."""


class Scanned(NamedTuple):
    """Source of the rows of a table of `holdfast.portable.report_tables`."""

    base: sa.Table
    """The table that has one row for each."""
    owners: tuple[sa.Table, ...]
    """The tables of the rows' owners, which have the names."""
    identity: tuple[str, ...]
    """Columns of the base."""
    references: bool = False
    """Whether only rows with an offloaded value are included, even if they have expired."""
    suffix: str = ""
    """Suffix of the keys of the rows to include, which is not shown."""

    def source(self, columns: Iterable[str]) -> sa.FromClause:
        """Return the base, joined with the owners if the columns need them."""
        source: sa.FromClause = self.base
        if not all(self.is_own(name) for name in columns):
            for owner in self.owners:
                source = source.join(owner)
        return source

    @property
    def key(self) -> list[sa.Column[Any]]:
        return [self.base.c[name] for name in self.identity]

    @property
    def reference(self) -> sa.ForeignKey:
        """The foreign key of the base to its first owner."""
        return next(key for key in self.base.foreign_keys if key.references(self.owners[0]))

    def is_own(self, name: str) -> bool:
        """Return whether the base has the column; a row shares the others with many rows."""
        return not self.owners or name in self.base.c

    def column(self, name: str) -> sa.ColumnElement[Any]:
        if self.suffix and name == "key":
            return _without(self.base.c.key, self.suffix)
        tables = (self.base, *self.owners)
        for one in tables:
            if (one, name) in _RENAMED_COLUMNS:
                return _RENAMED_COLUMNS[one, name]
        return next(one.c[name] for one in tables if name in one.c)


_RENAMED_COLUMNS: dict[tuple[sa.Table, str], sa.ColumnElement[Any]] = {
    (t.asset, "asset"): t.asset.c.name,
    (t.purge, "asset"): t.purge.c.name,
    (t.run, "conf"): sa.func.coalesce(t.run.c.conf, sa.literal_column("'{}'")),
}
"""Columns that have another name in the database, or may be NULL there."""
_TABLES = {
    "task_store": Scanned(t.task_entry, (t.task_instance, t.run), ("ti_id", "key")),
    "asset_store": Scanned(t.asset_entry, (t.asset,), ("asset_id", "key")),
    "asset_history": Scanned(t.asset_history, (t.asset,), ("asset_id", "key", "version")),
    "loads": Scanned(
        t.asset_history, (t.asset,), ("asset_id", "key", "version"), suffix=RECORD_SUFFIX
    ),
    "last_loads": Scanned(t.asset_entry, (t.asset,), ("asset_id", "key"), suffix=RECORD_SUFFIX),
    "runs": Scanned(t.run, (), ("dag_id", "run_id")),
    "task_instances": Scanned(t.task_instance, (t.run,), ("ti_id",)),
    "task_references": Scanned(t.task_entry, (t.task_instance, t.run), ("ti_id", "key"), True),
    "asset_references": Scanned(t.asset_entry, (t.asset,), ("asset_id", "key"), True),
    "history_references": Scanned(
        t.asset_history, (t.asset,), ("asset_id", "key", "version"), True
    ),
    "staged_references": Scanned(t.staged_write, (t.asset,), ("ti_id", "asset_id", "key"), True),
    "queued_references": Scanned(t.purge, (), ("id",), True),
}


@lru_cache(_CACHE_SIZE)
def scan(shape: ScanShape) -> Select:
    """Select columns of the rows in a range, in no particular order."""
    of = _TABLES[shape.table]
    wanted = [
        _test(of.column(column), number, operator, count)
        for number, (column, operator, count) in enumerate(shape.tests)
    ]
    if of.suffix:
        wanted.append(_ends(of.base.c.key, of.suffix))
    if of.references:
        wanted.append(_is_reference(of.base.c.value))
    elif of.base is t.task_entry:
        # The clock is evaluated once, not for each row. No index may serve this condition, which
        # nearly all rows meet: one on the times would be used in place of that on the identities.
        expiry = sa.func.coalesce(t.task_entry.c.expires_at, sa.literal_column(str(2**63 - 1)))
        wanted.append(expiry > sa.select(now).scalar_subquery())
    if shape.after:
        wanted.append(_beyond(of.key, "after", shape.by_rows))
    if shape.until:
        wanted.append(sa.not_(_beyond(of.key, "until", shape.by_rows)))
    chosen = [of.column(name).label(name) for name in shape.columns]
    tested = [column for column, *_ in shape.tests]
    return sa.select(*chosen).select_from(of.source([*shape.columns, *tested])).where(*wanted)


@lru_cache(_CACHE_SIZE)
def scan_own(shape: ScanShape) -> Select:
    """Return `scan` of the rows' own columns, with the owner's id as last column for the others."""
    of = _TABLES[shape.table]
    own = tuple(name for name in shape.columns if of.is_own(name))
    rows = scan(shape._replace(columns=own))
    return rows if own == shape.columns else rows.add_columns(of.reference.parent.label(OWNER))


@lru_cache(_CACHE_SIZE)
def owned(table: str, columns: tuple[str, ...]) -> Select:
    """Select these columns of the owners `ids`, in their order. For PostgreSQL alone."""
    of = _TABLES[table]
    key = of.reference.column
    ids = sa.func.unnest(sa.bindparam("ids", type_=sa.ARRAY(key.type)))
    asked = ids.table_valued("id", with_ordinality="number", name="asked").render_derived()
    source: sa.FromClause = asked.join(of.owners[0], key == asked.c.id)
    for owner in of.owners[1:]:
        source = source.join(owner)
    chosen = [of.column(name) for name in columns]
    return sa.select(*chosen).select_from(source).order_by(asked.c.number)


def owners_columns(table: str, columns: Iterable[str]) -> tuple[str, ...]:
    """Return those of the columns that the rows share with others."""
    return tuple(name for name in columns if not _TABLES[table].is_own(name))


@lru_cache(_CACHE_SIZE)
def scan_slice(shape: ScanShape) -> Select:
    """Select the first rows of `scan`, each followed by its identity."""
    key = _TABLES[shape.table].key
    return (
        scan(shape)
        .add_columns(*(part.label(f"identity_{n}") for n, part in enumerate(key)))
        .order_by(*key)
        .limit(sa.bindparam("limit"))
    )


@lru_cache(_CACHE_SIZE)
def measured_slice(shape: ScanShape) -> Select:
    """Return `scan_slice` with the length of the text, and without large texts."""
    name = next(name for name in shape.columns if name in LARGE)
    return measure(scan_slice(shape), name)


def _is_reference(value: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return sa.or_(
        *(
            sa.func.substr(value, 1, len(prefix)) == sa.literal(prefix)
            for prefix in (REFERENCE_PREFIX, IN_PLACE_PREFIX)
        )
    )


def _without(column: sa.ColumnElement[str], suffix: str) -> sa.ColumnElement[str]:
    length = sa.func.char_length(column) - sa.literal_column(str(len(suffix)))
    # PostgreSQL may evaluate this for shorter keys first, and refuses a negative length.
    return sa.func.substr(column, sa.literal_column("1"), sa.func.abs(length), type_=column.type)


def _ends(column: sa.ColumnElement[str], suffix: str) -> sa.ColumnElement[bool]:
    """Return the condition of an ending. Not LIKE, which is case-insensitive in SQLite."""
    start = sa.func.char_length(column) - sa.literal_column(str(len(suffix) - 1))
    return sa.func.substr(column, start) == sa.literal(suffix)


def _test(column: sa.ColumnElement[Any], number: int, operator: str, count: int) -> Any:
    values = [sa.bindparam(f"test_{number}_{n}", type_=column.type) for n in range(count)]
    match operator:
        case "null":
            return column.is_(None)
        case "not null":
            return column.is_not(None)
        case "in":
            return column.in_(values)
        case "starts":
            length = sa.func.char_length(values[0])
            return sa.and_(column >= values[0], sa.func.substr(column, 1, length) == values[0])
    return column.op(operator, is_comparison=True)(values[0])


def _beyond(key: list[sa.Column[Any]], name: str, by_rows: bool) -> sa.ColumnElement[bool]:
    """Return the condition that a row comes after the identity in the parameters of that name."""
    bound = [sa.bindparam(f"{name}_{n}", type_=part.type) for n, part in enumerate(key)]
    if by_rows:
        return sa.tuple_(*key) > sa.tuple_(*bound)
    *front, last = zip(key, bound, strict=True)
    beyond: sa.ColumnElement[bool] = last[0] > last[1]
    for column, value in reversed(front):
        beyond = sa.or_(column > value, sa.and_(column == value, beyond))
    return beyond


@cache
def size(table: str) -> Select:
    """Select the number of rows, up to `limit`."""
    some: Select = sa.select(sa.literal_column("1")).select_from(_TABLES[table].base)
    return sa.select(sa.func.count()).select_from(some.limit(sa.bindparam("limit")).subquery())


@cache
def ends(table: str) -> Select:
    """Select the ids of the first and the last row."""
    id = _TABLES[table].base.c.id
    return sa.select(sa.func.min(id), sa.func.max(id))


@cache
def next_ids(table: str, count: int) -> Select:
    """Select, for each of so many ids, the first existing one from it on."""
    id = _TABLES[table].base.c.id
    return sa.select(
        *(
            sa.select(sa.func.min(id)).where(id >= sa.bindparam(f"id_{n}")).scalar_subquery()
            for n in range(count)
        )
    )


@cache
def identities(table: str, count: int) -> Select:
    """Select the identities of the rows with these ids."""
    id = _TABLES[table].base.c.id
    wanted: list[sa.BindParameter[int]] = [sa.bindparam(f"id_{n}") for n in range(count)]
    return sa.select(*_TABLES[table].key).where(id.in_(wanted))
