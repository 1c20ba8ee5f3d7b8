"""Statements for the purge queue: objects that no entry refers to any more, or not yet.

Parameters: `owner` (a task instance's id, or the digest of an asset's name), `key`, `value`, `row`,
`until`, `now`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa

from holdfast.model.value import IN_PLACE_PREFIX
from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, given, now
from holdfast.stores.sql.statements.scope_tables import TASKS, ScopeTables, Select

_row = t.purge.c
_until = sa.bindparam("until", type_=sa.BigInteger())
_is_taken_by = _row.taker == sa.bindparam("by")
_COLUMNS = (
    *(_row.id, _row.dag_id, _row.run_id, _row.task_id, _row.map_index),
    *(_row.name, _row.uri, _row.key, _row.value, _row.tries),
)


def owner_column(tables: ScopeTables) -> sa.Column[Any]:
    return _row.ti_id if tables is TASKS else _row.name_digest


@cache
def lock_of_keys(tables: ScopeTables, count: int) -> Select:
    """Select and lock the rows of so many keys: the reference and reservation of each, and whether
    it is being deleted. A barrier that covers the scope, a row without a key, is included."""
    owner = owner_column(tables)
    keys = [sa.bindparam(f"nth_{n}", type_=_row.key.type) for n in range(count)]
    of_keys = sa.and_(owner == sa.bindparam("owner"), _row.key.in_(keys))
    in_front = sa.or_(owner == sa.bindparam("owner"), owner == sa.bindparam("whole"))
    barrier = sa.and_(in_front, _row.key == "", _row.taken_until > now)
    return (
        sa.select(_row.key, _row.id, _row.value, _row.reservation, _row.taken_until > now)
        .where(sa.or_(of_keys, barrier))
        .order_by(_row.id)
        .with_for_update()
    )


@cache
def count_part(conditions: frozenset[str]) -> Select:
    """Select the number of rows in a part of the queue, due or not."""
    return sa.select(sa.func.count()).select_from(t.purge).where(*_part(conditions))


@cache
def refers_in_place(tables: ScopeTables) -> Select:
    """Select whether the owner's entries or staged writes refer to objects overwritten in place."""
    entries = (t.task_entry,) if tables is TASKS else (t.asset_entry, t.staged_write)
    start = sa.literal(IN_PLACE_PREFIX)
    return sa.select(
        sa.or_(
            *(
                sa.exists().where(
                    table.c[tables.owner_id.name] == sa.bindparam("owner"),
                    sa.func.substr(table.c.value, 1, len(IN_PLACE_PREFIX)) == start,
                )
                for table in entries
            )
        )
    )


@cache
def newest_barrier(tables: ScopeTables) -> Select:
    owner = owner_column(tables) == sa.bindparam("owner")
    return sa.select(_row.id).where(owner, _row.key == "").order_by(_row.id.desc()).limit(1)


@cache
def add(tables: ScopeTables) -> Any:
    """Insert a row, due after `until`."""
    names = ["key", "value", "reservation", "tracked"]
    if tables is TASKS:
        names += ["ti_id", "dag_id", "run_id", "task_id", "map_index"]
    else:
        names += ["name_digest", "name", "uri"]
    return sa.insert(t.purge).values(**given(*names), due_at=now + _until)


@cache
def lock_due(dialect: type[Dialect], conditions: frozenset[str]) -> Select:
    """Select and lock the due rows of a part, and whether an entry refers to the object again.
    Objects reserved by another writer are left out: in one snapshot, an object is either reserved
    or referred to."""
    unreserved = sa.not_(_reserved())
    due = sa.select(*_COLUMNS, _named()).where(_row.due_at <= now, unreserved, *_part(conditions))
    due = due.order_by(_row.due_at, _row.id).limit(sa.bindparam("limit"))
    return dialect().lock(due, t.purge, skip=True)


def _reserved() -> sa.ColumnElement[bool]:
    other = t.purge.alias("other")
    in_place = sa.func.substr(_row.value, 1, len(IN_PLACE_PREFIX)) == sa.literal(IN_PLACE_PREFIX)
    same_key = other.c.key == _row.key
    return sa.exists().where(
        # With the key in both, each finds its rows through an index.
        sa.or_(
            sa.and_(other.c.ti_id == _row.ti_id, same_key),
            sa.and_(other.c.name_digest == _row.name_digest, same_key),
        ),
        other.c.due_at > now,
        sa.or_(other.c.value == _row.value, sa.and_(in_place, other.c.value == "")),
    )


def _part(conditions: frozenset[str]) -> list[sa.ColumnElement[bool]]:
    return [_row[name] == sa.bindparam(name) for name in sorted(conditions)]


def _named() -> sa.ColumnElement[bool]:
    its_task = t.task_entry.c.ti_id == _row.ti_id
    its_asset = t.asset.c.name_digest == _row.name_digest
    lasts = sa.func.substr(_row.value, 1, len(IN_PLACE_PREFIX)) != sa.literal(IN_PLACE_PREFIX)
    return sa.or_(
        sa.exists().where(its_task, _same(t.task_entry)),
        *(
            sa.exists().select_from(table.join(t.asset)).where(its_asset, _same(table))
            for table in (t.asset_entry, t.staged_write)
        ),
        sa.exists()
        .select_from(t.asset_history.join(t.asset))
        .where(lasts, its_asset, _same(t.asset_history)),
    )


def _same(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.key == _row.key, table.c.value == _row.value)


@cache
def drop() -> sa.Delete:
    return sa.delete(t.purge).where(_row.id == sa.bindparam("row"))


@cache
def taken(count: int) -> Select:
    """Select those of so many rows that the taker still holds: owner, key, reference, and tries."""
    columns = (_row.id, _row.ti_id, _row.name_digest, _row.key, _row.value, _row.tries)
    ids: list[sa.BindParameter[int]] = [sa.bindparam(f"row_{n}") for n in range(count)]
    return sa.select(*columns).where(_row.id.in_(ids), _is_taken_by).order_by(_row.id)


@cache
def drop_object(tables: ScopeTables) -> sa.Delete:
    """Delete all rows and reservations of an object that is gone."""
    value = sa.bindparam("value", type_=t.LongText())
    return sa.delete(t.purge).where(
        owner_column(tables) == sa.bindparam("owner"),
        _row.key == sa.bindparam("key"),
        sa.or_(_row.value == value, _row.value == sa.bindparam("reserved")),
    )


@cache
def postpone() -> sa.Update:
    """Postpone the row by `until`, and release it."""
    return _update(due_at=now + _until, taken_until=0, taker=sa.null())


@cache
def release() -> sa.Update:
    """Remove the reservation, and make the row due."""
    return _update(due_at=0, reservation=sa.null())


@cache
def track() -> sa.Update:
    """Mark the row as tracked: an entry outside this database refers to the object."""
    return _update(due_at=now + _until, reservation=sa.null(), tracked=1)


@cache
def expedite(conditions: frozenset[str], but: bool) -> sa.Update:
    """Make tracked rows due, unless they are being deleted; with `but`, all except one value."""
    update = sa.update(t.purge).where(
        _row.tracked == 1, _row.taken_until <= now, *_part(conditions)
    )
    if but:
        update = update.where(_row.value != sa.bindparam("standing"))
    return update.values(due_at=0)


@cache
def retry(conditions: frozenset[str]) -> sa.Update:
    """Make failed rows due, unless they are being deleted."""
    failed = (_row.tries > 0, _row.taken_until <= now)
    return sa.update(t.purge).where(*failed, *_part(conditions)).values(due_at=0)


@cache
def take() -> sa.Update:
    taker: Any = sa.bindparam("by")
    return _update(due_at=now + _until, taken_until=now + _until, taker=taker)


@cache
def fail() -> sa.Update:
    error: Any = sa.bindparam("reason")
    tries = _row.tries + 1
    return _update(due_at=now + _until, taken_until=0, taker=sa.null(), tries=tries, error=error)


def _update(**values: Any) -> sa.Update:
    return sa.update(t.purge).where(_row.id == sa.bindparam("row")).values(**values)


@cache
def count(conditions: frozenset[str]) -> Select:
    """Select the number of waiting rows (due, failed or being deleted), of failed ones, of all."""
    failed = _row.tries > 0
    waiting = sa.or_(_row.due_at <= now, failed, _row.taken_until > now)
    numbers: list[Any] = [_number(waiting), _number(failed), sa.func.count()]
    return sa.select(*numbers).select_from(t.purge).where(*_part(conditions))


def _number(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.coalesce(sa.func.sum(sa.case((condition, 1), else_=0)), 0)


@cache
def last_error(conditions: frozenset[str]) -> Select:
    failed = sa.select(_row.error).where(_row.tries > 0, *_part(conditions))
    return failed.order_by(_row.due_at.desc()).limit(1)
