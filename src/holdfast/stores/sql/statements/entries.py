"""Statements for entries. Each is built once, from the tables, and compiled once for its database.

Parameters that every statement may use: `owner` (of the entries), `key`, `now`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, now

Select = sa.Select[Any]


class ScopeTables(NamedTuple):
    """Tables of one kind of scope: of the owner, of its entries, and of their history."""

    owner: sa.Table
    entry: sa.Table
    history: sa.Table | None

    @property
    def id(self) -> sa.Column[Any]:
        """The owner's primary key."""
        return next(iter(self.owner.primary_key.columns))

    @property
    def owner_id(self) -> sa.Column[Any]:
        """The entry's foreign key to its owner."""
        return next(iter(self.entry.foreign_keys)).parent


TASKS = ScopeTables(t.task_instance, t.task_entry, None)
ASSETS = ScopeTables(t.asset, t.asset_entry, t.asset_history)


def _owned(tables: ScopeTables, by: str) -> sa.ColumnElement[bool]:
    """Return the condition for entries of the owner that column `by` finds."""
    if by == tables.id.name:
        return tables.owner_id == sa.bindparam("owner")
    found = sa.select(tables.id).where(tables.owner.c[by] == sa.bindparam("owner"))
    return tables.owner_id == found.scalar_subquery()


def live(tables: ScopeTables) -> sa.ColumnElement[bool]:
    if "expires_at" not in tables.entry.c:
        return sa.true()
    expiry = tables.entry.c.expires_at
    return sa.or_(expiry.is_(None), expiry > now)


def _entry_columns(tables: ScopeTables) -> list[sa.ColumnElement[Any]]:
    c = tables.entry.c
    expiry = c.expires_at if "expires_at" in c else sa.null()
    return [c.key, c.value, c.version, c.updated_at, c.writer, expiry]


def of_key(table: sa.Table) -> sa.ColumnElement[bool]:
    return table.c.key == sa.bindparam("key")


@cache
def get(tables: ScopeTables, by: str) -> Select:
    return sa.select(tables.entry.c.value).where(
        _owned(tables, by), of_key(tables.entry), live(tables)
    )


@cache
def entry(tables: ScopeTables, by: str) -> Select:
    columns = _entry_columns(tables)
    return sa.select(*columns).where(_owned(tables, by), of_key(tables.entry), live(tables))


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
    return (
        sa.update(tables.owner)
        .where(tables.id == sa.bindparam("owner"))
        .values(revision=sa.bindparam("version"))
    )


@cache
def upsert(tables: ScopeTables, dialect: type[Dialect]) -> Any:
    statement = dialect().upsert(tables.entry, [tables.owner_id.name, "key"])
    return statement.values({tables.owner_id.name: sa.bindparam("owner"), "updated_at": now})


@cache
def delete(tables: ScopeTables) -> sa.Delete:
    return sa.delete(tables.entry).where(_owned(tables, tables.id.name), of_key(tables.entry))


@cache
def delete_all(tables: ScopeTables) -> sa.Delete:
    return sa.delete(tables.entry).where(_owned(tables, tables.id.name))


@cache
def keys(tables: ScopeTables) -> Select:
    c = tables.entry.c
    return sa.select(c.key).where(_owned(tables, tables.id.name)).order_by(c.key)


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
        wanted.append(_owned(tables, by))
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
def history(by: str) -> Select:
    c = t.asset_history.c
    found = sa.select(t.asset.c.id).where(t.asset.c[by] == sa.bindparam("owner"))
    return (
        sa.select(c.version, c.value, c.updated_at, c.writer, c.previous)
        .where(
            c.asset_id == found.scalar_subquery(),
            of_key(t.asset_history),
            c.version < sa.bindparam("before"),
        )
        .order_by(c.version.desc())
        .limit(sa.bindparam("limit"))
    )


def _steps() -> Any:
    return t.asset_history.alias("steps")


@cache
def add_history() -> sa.Insert:
    steps = _steps().c
    latest = sa.select(sa.func.coalesce(sa.func.max(steps.version), 0)).where(
        steps.asset_id == sa.bindparam("owner"), steps.key == sa.bindparam("key")
    )
    entry = t.asset_entry.c
    written = sa.select(entry.updated_at).where(
        entry.asset_id == sa.bindparam("owner"),
        of_key(t.asset_entry),
        entry.version == sa.bindparam("version"),
    )
    return sa.insert(t.asset_history).values(
        asset_id=sa.bindparam("owner"),
        key=sa.bindparam("key"),
        version=sa.bindparam("version"),
        previous=latest.scalar_subquery(),
        value=sa.bindparam("value"),
        updated_at=sa.func.coalesce(written.scalar_subquery(), now),
        writer=sa.bindparam("writer"),
    )


@cache
def trim_history() -> sa.Delete:
    steps = _steps().c
    # MySQL reads the table that it deletes from only through a derived table.
    first_to_go = (
        sa.select(steps.version)
        .where(steps.asset_id == sa.bindparam("owner"), steps.key == sa.bindparam("key"))
        .order_by(steps.version.desc())
        .limit(1)
        .offset(sa.bindparam("kept"))
        .subquery()
    )
    c = t.asset_history.c
    return sa.delete(t.asset_history).where(
        c.asset_id == sa.bindparam("owner"),
        of_key(t.asset_history),
        c.version <= sa.select(first_to_go.c.version).scalar_subquery(),
    )


@cache
def staged(by: str | None, one_key: bool) -> Select:
    """Select the writes staged by the attempt, if it is the live one: for an asset, or for all."""
    s, ti, a = t.staged_write.c, t.task_instance.c, t.asset.c
    select = (
        sa.select(s.key, s.value, s.advances, s.updated_at, a.id, a.name, a.uri)
        .select_from(t.staged_write.join(t.task_instance).join(t.asset))
        .where(s.ti_id == sa.bindparam("ti_id"), ti.live_attempt == sa.bindparam("attempt"))
        .limit(sa.bindparam("limit"))
    )
    if by is not None:
        select = select.where(a[by] == sa.bindparam("owner"))
    return select.where(of_key(t.staged_write)) if one_key else select


@cache
def stage(dialect: type[Dialect]) -> Any:
    statement = dialect().upsert(t.staged_write, ["ti_id", "asset_id", "key"])
    return statement.values(updated_at=now)


@cache
def staged_of_task() -> Select:
    s = t.staged_write.c
    return (
        sa.select(s.asset_id, s.key, s.value, s.advances, s.if_version)
        .where(s.ti_id == sa.bindparam("owner"))
        .order_by(s.asset_id, s.key)
    )


@cache
def drop_staged() -> sa.Delete:
    return sa.delete(t.staged_write).where(t.staged_write.c.ti_id == sa.bindparam("owner"))


@cache
def drop_staged_for_asset() -> sa.Delete:
    """Delete all writes staged for an asset, by any task."""
    return sa.delete(t.staged_write).where(t.staged_write.c.asset_id == sa.bindparam("owner"))


@cache
def add_asset(dialect: type[Dialect]) -> Any:
    return (
        dialect()
        .insert_new(t.asset)
        .values(
            name=sa.bindparam("name"),
            uri=sa.bindparam("uri"),
            name_digest=sa.bindparam("name_digest"),
            uri_digest=sa.bindparam("uri_digest"),
            by_hand=False,
            revision=0,
            swept_revision=0,
        )
    )


@cache
def find_asset() -> Select:
    c = t.asset.c
    return sa.select(c.id, c.name, c.uri, c.orphaned_at, c.revision).where(
        sa.or_(
            c.name_digest == sa.bindparam("name_digest"), c.uri_digest == sa.bindparam("uri_digest")
        )
    )


@cache
def declare_by_hand() -> sa.Update:
    return (
        sa.update(t.asset)
        .where(t.asset.c.id == sa.bindparam("owner"))
        .values(by_hand=True, orphaned_at=sa.null())
    )


@cache
def drop_declarations() -> sa.Delete:
    return sa.delete(t.declaration).where(t.declaration.c.dag_id == sa.bindparam("dag_id"))


@cache
def add_declaration(dialect: type[Dialect]) -> Any:
    return (
        dialect()
        .insert_new(t.declaration)
        .values(dag_id=sa.bindparam("dag_id"), asset_id=sa.bindparam("owner"))
    )


def _is_declared() -> sa.ColumnElement[bool]:
    return sa.or_(t.asset.c.by_hand, sa.exists().where(t.declaration.c.asset_id == t.asset.c.id))


@cache
def deactivate() -> sa.Update:
    return (
        sa.update(t.asset)
        .where(t.asset.c.orphaned_at.is_(None), sa.not_(_is_declared()))
        .values(orphaned_at=now)
    )


@cache
def reactivate() -> sa.Update:
    return (
        sa.update(t.asset)
        .where(t.asset.c.orphaned_at.is_not(None), _is_declared())
        .values(orphaned_at=sa.null())
    )


def _assets(asset: sa.FromClause = t.asset) -> Select:
    c, d = asset.c, t.declaration.c
    return (
        sa.select(c.id, c.name, c.uri, c.by_hand, c.orphaned_at, d.dag_id)
        .select_from(asset.outerjoin(t.declaration, d.asset_id == c.id))
        .order_by(c.name, d.dag_id)
    )


@cache
def assets() -> Select:
    return _assets()


@cache
def page_of_assets() -> Select:
    page = sa.select(t.asset).order_by(t.asset.c.name)
    return _assets(page.limit(sa.bindparam("limit")).offset(sa.bindparam("offset")).subquery())


@cache
def count_assets() -> Select:
    return sa.select(sa.func.count()).select_from(t.asset)


@cache
def asset_by_id() -> Select:
    return _assets().where(t.asset.c.id == sa.bindparam("owner"))


@cache
def asset_names() -> Select:
    """Select enough names to suggest some in an error."""
    return sa.select(t.asset.c.name).order_by(t.asset.c.name).limit(1000)


@cache
def delete_asset() -> sa.Delete:
    return sa.delete(t.asset).where(t.asset.c.id == sa.bindparam("owner"))


def _orphaned() -> sa.ColumnElement[bool]:
    """Return the condition that the preview and the sweep share."""
    c = t.asset.c
    return sa.and_(c.orphaned_at <= sa.bindparam("cutoff"), c.revision > c.swept_revision)


@cache
def orphans() -> Select:
    return _assets().where(_orphaned())


@cache
def lock_orphans() -> Select:
    c = t.asset.c
    return (
        sa.select(c.id, c.name, c.uri)
        .where(_orphaned())
        .order_by(c.id)
        .with_for_update(key_share=True)
    )


@cache
def mark_swept() -> sa.Update:
    c = t.asset.c
    return (
        sa.update(t.asset)
        .where(c.id == sa.bindparam("owner"))
        .values(swept_revision=t.asset.c.revision)
    )


@cache
def delete_history() -> sa.Delete:
    return sa.delete(t.asset_history).where(t.asset_history.c.asset_id == sa.bindparam("owner"))


@cache
def clock() -> Select:
    return sa.select(now)


def _expired() -> sa.ColumnElement[bool]:
    """Return the condition that the preview and the cleanup share."""
    return t.task_entry.c.expires_at <= sa.bindparam("cutoff")


@cache
def count_expired() -> Select:
    return sa.select(sa.func.count()).select_from(t.task_entry).where(_expired())


@cache
def expired() -> Select:
    """Select expired entries after (`after_time`, `after_id`)."""
    e, ti, r = t.task_entry.c, t.task_instance.c, t.run.c
    after = sa.tuple_(
        sa.bindparam("after_time", type_=sa.BigInteger()),
        sa.bindparam("after_id", type_=sa.BigInteger()),
    )
    return (
        sa.select(e.id, r.dag_id, r.run_id, ti.task_id, ti.map_index, e.key, e.expires_at)
        .select_from(t.task_entry.join(t.task_instance).join(t.run))
        .where(_expired(), sa.tuple_(e.expires_at, e.id) > after)
        .order_by(e.expires_at, e.id)
        .limit(sa.bindparam("limit"))
    )


@cache
def lock_expired(dialect: type[Dialect]) -> Select:
    return dialect().lock(expired(), t.task_entry)


@cache
def delete_expired() -> sa.Delete:
    return sa.delete(t.task_entry).where(_expired())


@cache
def delete_expired_batch(dialect: type[Dialect], skip_held: bool) -> sa.Delete:
    e = t.task_entry.c
    batch = sa.select(e.id).where(_expired()).order_by(e.expires_at).limit(sa.bindparam("limit"))
    return dialect().delete_batch(t.task_entry, dialect().lock(batch, t.task_entry, skip_held))


@cache
def delete_entry() -> sa.Delete:
    return sa.delete(t.task_entry).where(t.task_entry.c.id == sa.bindparam("row"))
