"""Statements for entries. Each is built once, from the tables, and compiled once for its database.

Parameters that every statement may use: `owner` (of the entries), `key`, `now`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa

from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, now
from holdfast.stores.sql.statements.expiry import live
from holdfast.stores.sql.statements.scope_tables import (
    ASSETS,
    TASKS,
    ScopeTables,
    Select,
    of_key,
    owned,
)


def _entry_columns(tables: ScopeTables) -> list[sa.ColumnElement[Any]]:
    c = tables.entry.c
    expiry = c.expires_at if "expires_at" in c else sa.null()
    return [c.key, c.value, c.version, c.updated_at, c.writer, expiry]


@cache
def get(tables: ScopeTables, by: str) -> Select:
    return sa.select(tables.entry.c.value).where(
        owned(tables, by), of_key(tables.entry), live(tables)
    )


@cache
def entry(tables: ScopeTables, by: str) -> Select:
    columns = _entry_columns(tables)
    return sa.select(*columns).where(owned(tables, by), of_key(tables.entry), live(tables))


@cache
def owner(tables: ScopeTables, by: str) -> Select:
    return sa.select(tables.id).where(tables.owner.c[by] == sa.bindparam("owner"))


@cache
def identity(by: str) -> Select:
    c = t.asset.c
    return sa.select(c.id, c.name, c.uri).where(c[by] == sa.bindparam("owner"))


@cache
def lock_owner(tables: ScopeTables, by: str, share: bool = False) -> Select:
    """Select the owner's id, revision and what decides whether it may be written; locked."""
    c = tables.owner.c
    facts = [c.orphaned_at] if tables is ASSETS else [c.attempt, c.live_attempt]
    return (
        sa.select(tables.id, c.revision, *facts)
        .where(c[by] == sa.bindparam("owner"))
        .with_for_update(read=share, key_share=not share)
    )


@cache
def set_revision(tables: ScopeTables) -> sa.Update:
    change = sa.update(tables.owner).where(tables.id == sa.bindparam("owner"))
    return change.values(revision=sa.bindparam("version"))


@cache
def upsert(tables: ScopeTables, dialect: type[Dialect]) -> Any:
    statement = dialect().upsert(tables.entry, [tables.owner_id.name, "key"])
    return statement.values({tables.owner_id.name: sa.bindparam("owner"), "updated_at": now})


@cache
def delete(tables: ScopeTables) -> sa.Delete:
    return sa.delete(tables.entry).where(owned(tables, tables.id.name), of_key(tables.entry))


@cache
def delete_all(tables: ScopeTables) -> sa.Delete:
    return sa.delete(tables.entry).where(owned(tables, tables.id.name))


@cache
def keys(tables: ScopeTables) -> Select:
    c = tables.entry.c
    return sa.select(c.key).where(owned(tables, tables.id.name)).order_by(c.key)


@cache
def map_indices() -> Select:
    """Select every map index of a task in a run, in the order in which all writers lock them."""
    c, r = t.task_instance.c, t.run.c
    return (
        sa.select(c.ti_id)
        .select_from(t.task_instance.join(t.run))
        .where(
            r.dag_id == sa.bindparam("dag_id"),
            r.run_id == sa.bindparam("run_id"),
            c.task_id == sa.bindparam("task_id"),
        )
        .order_by(c.ti_id)
    )


@cache
def listing(tables: ScopeTables, by: str | None, conditions: frozenset[str], count: bool) -> Select:
    """Select entries with their owners, filtered by the named conditions."""
    e = tables.entry.c
    possible: dict[str, sa.ColumnElement[bool]] = {
        "dag_id": t.run.c.dag_id == sa.bindparam("dag_id"),
        "run_id": t.run.c.run_id == sa.bindparam("run_id"),
        "task_id": t.task_instance.c.task_id == sa.bindparam("task_id"),
        "map_index": t.task_instance.c.map_index == sa.bindparam("map_index"),
        "prefix": sa.func.substr(e.key, 1, sa.bindparam("prefix_length", type_=sa.Integer()))
        == sa.bindparam("prefix", type_=sa.Text()),
        "updated_since": e.updated_at >= sa.bindparam("updated_since"),
    }
    if "expires_at" in e:
        possible["expiring_before"] = e.expires_at < sa.bindparam("expiring_before")
    columns: list[Any] = [*_entry_columns(tables)]
    source: sa.FromClause
    if tables is TASKS:
        names = [t.run.c.dag_id, t.run.c.run_id, t.task_instance.c.task_id]
        columns += [*names, t.task_instance.c.map_index]
        source = t.task_entry.join(t.task_instance).join(t.run)
        order = [*names, t.task_instance.c.map_index, e.key]
    else:
        columns += [t.asset.c.id, t.asset.c.name, t.asset.c.uri]
        source = t.asset_entry.join(t.asset)
        order = [t.asset.c.name, e.key]
    # The last column, the key, is enough within one scope. Bounds are numbered from it.
    columns_after = order[-1:] if by is not None else order
    bounds: list[sa.BindParameter[Any]] = [
        sa.bindparam(f"after_{n}") for n in reversed(range(len(columns_after)))
    ]
    possible["after"] = sa.tuple_(*columns_after) > sa.tuple_(*bounds)
    wanted = [possible[name] for name in sorted(conditions)] + [live(tables)]
    if by is not None:
        wanted.append(owned(tables, by))
    if count:
        return sa.select(sa.func.count()).select_from(source).where(*wanted)
    return (
        sa.select(*columns)
        .select_from(source)
        .where(*wanted)
        .order_by(*order)
        .limit(sa.bindparam("limit"))
        .offset(sa.bindparam("offset"))
    )


@cache
def measured(select: Select, name: str) -> Select:
    """Return `measure` of a statement that is cached forever."""
    return measure(select, name)


def measure(select: Select, name: str) -> Select:
    """Return the select with the length of a text as last column, and without texts of more than
    `whole` characters."""
    labelled = select.selected_columns[name]
    column = labelled.element if isinstance(labelled, sa.Label) else labelled
    length = sa.func.char_length(column)
    short = sa.case((length <= sa.bindparam("whole"), column)).label(name)
    columns = [short if one is labelled else one for one in select.selected_columns]
    return select.with_only_columns(*columns, length)


@cache
def clock() -> Select:
    return sa.select(now)
