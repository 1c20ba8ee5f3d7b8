"""Statements for bulk loads.

Parameters: `load` (a load's row), `name`, `part`, `first` and `stop` (numbers of entries in a
part), `writer`, `own` (the task instance that writes its own entries, if one does), `kept` (the
length of a history), `now`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa

from holdfast.model.run import RunKind, RunState
from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, now
from holdfast.stores.sql.statements.deletion import reached_before
from holdfast.stores.sql.statements.scope_tables import ASSETS, TASKS, ScopeTables, Select

_row = t.load_entry.c
_of_load = _row.load == sa.bindparam("load")
_of_slice = sa.and_(
    _of_load,
    _row.part == sa.bindparam("part"),
    _row.number >= sa.bindparam("first"),
    _row.number < sa.bindparam("stop"),
)


def owner_of(tables: ScopeTables) -> sa.Column[Any]:
    """Return the column with the owner of a load's entry."""
    return _row[tables.owner_id.name]


@cache
def add_load(dialect: type[Dialect]) -> Any:
    new = dialect().insert_new(t.load)
    return new.values(name=sa.bindparam("name"), writer=sa.bindparam("writer"), started_at=now)


@cache
def lock_load(share: bool) -> Select:
    """Select the load's id and writer, locked; it cannot be dropped while others share the lock."""
    found = sa.select(t.load.c.id, t.load.c.writer).where(t.load.c.name == sa.bindparam("name"))
    return found.with_for_update(read=share)


@cache
def lock_old_loads(dialect: type[Dialect]) -> Select:
    old = sa.select(t.load.c.id).where(t.load.c.started_at < sa.bindparam("cutoff"))
    return dialect().lock(old, t.load, skip=True)


@cache
def parts() -> Select:
    """Select each part with its number of entries, and of those of task instances."""
    counts = sa.func.count(), sa.func.count(_row.ti_id)
    return sa.select(_row.part, *counts).where(_of_load).group_by(_row.part)


@cache
def last_number() -> Select:
    """Select the number of a part's last entry; null if it has none."""
    last = sa.func.max(_row.number)
    return sa.select(last).where(_of_load, _row.part == sa.bindparam("part"))


@cache
def drop_part() -> sa.Delete:
    return sa.delete(t.load_entry).where(_of_load, _row.part == sa.bindparam("part"))


@cache
def drop_entries() -> sa.Delete:
    return sa.delete(t.load_entry).where(_of_load)


@cache
def drop_load() -> sa.Delete:
    return sa.delete(t.load).where(t.load.c.id == sa.bindparam("load"))


@cache
def repeated(tables: ScopeTables) -> Select:
    """Select the owner and key of an entry that occurs more than once."""
    owner = owner_of(tables)
    return (
        sa.select(owner, _row.key)
        .where(_of_load, owner.is_not(None))
        .group_by(owner, _row.key)
        .having(sa.func.count() > 1)
        .limit(1)
    )


@cache
def task_scope() -> Select:
    """Select the task instance of an owner in a load."""
    names = (_row.dag_id, _row.run_id, _row.task_id, _row.map_index)
    named = sa.and_(_row.ti_id == sa.bindparam("owner"), _row.dag_id.is_not(None))
    return sa.select(*names).where(_of_load, named).limit(1)


@cache
def add_runs(dialect: type[Dialect]) -> Any:
    """Insert the runs that do not exist, as external ones."""
    wanted = sa.select(_row.dag_id, _row.run_id).where(_of_load, _row.dag_id.is_not(None))
    new, run = wanted.distinct().subquery("new"), t.run.c
    known = sa.exists().where(run.dag_id == new.c.dag_id, run.run_id == new.c.run_id)
    kind, state = sa.literal(RunKind.EXTERNAL.value), sa.literal(RunState.IDLE.value)
    rows = sa.select(new.c.dag_id, new.c.run_id, kind, state, now).where(~known)
    names = ["dag_id", "run_id", "kind", "state", "created_at"]
    return dialect().insert_new(t.run).from_select(names, rows)


@cache
def add_task_instances(dialect: type[Dialect]) -> Any:
    """Insert the task instances that do not exist, in runs that do."""
    wanted = sa.select(_row.ti_id, _row.dag_id, _row.run_id, _row.task_id, _row.map_index)
    new = wanted.where(_of_load, _row.dag_id.is_not(None)).distinct().subquery("new")
    run, ti = t.run.c, t.task_instance.c
    first = [reached_before(name, run.id) for name in ("revision", "attempt")]
    rows = (
        sa.select(new.c.ti_id, run.id, new.c.task_id, new.c.map_index, *first)
        .join_from(new, t.run, sa.and_(run.dag_id == new.c.dag_id, run.run_id == new.c.run_id))
        .where(~sa.exists().where(ti.ti_id == new.c.ti_id))
    )
    names = ["ti_id", "run", "task_id", "map_index", "revision", "attempt"]
    return dialect().insert_new(t.task_instance).from_select(names, rows)


@cache
def count_writes(tables: ScopeTables) -> sa.Update:
    """Take the next version of every owner in the load, which locks out other writers."""
    # As a join: MariaDB would scan the load once for each row of the owners' table.
    owners = sa.select(owner_of(tables).label("id")).where(_of_load).distinct().subquery("written")
    return (
        sa.update(tables.owner)
        .where(tables.id == owners.c.id)
        .values(revision=tables.owner.c.revision + 1)
    )


@cache
def refused_asset() -> Select:
    """Select an asset in the load that cannot be written: its id, and its name if it exists."""
    asset = t.asset.c
    return (
        sa.select(_row.asset_id, asset.name)
        .select_from(t.load_entry.outerjoin(t.asset, asset.id == _row.asset_id))
        .where(
            _of_load,
            _row.asset_id.is_not(None),
            sa.or_(asset.id.is_(None), asset.orphaned_at.is_not(None)),
        )
        .limit(1)
    )


@cache
def queued_objects(tables: ScopeTables) -> Select:
    """Select the references in the load that are in the purge queue: owner's names, key, value."""
    queued = t.purge.c
    names = (queued.dag_id, queued.run_id, queued.task_id, queued.map_index)
    same: Any = sa.and_(queued.key == _row.key, queued.value == _row.value)
    if tables is TASKS:
        source = t.load_entry.join(t.purge, sa.and_(queued.ti_id == _row.ti_id, same))
        return sa.select(*names, _row.key, _row.value).select_from(source).where(_of_load)
    source = t.load_entry.join(t.asset, t.asset.c.id == _row.asset_id)
    source = source.join(t.purge, sa.and_(queued.name_digest == t.asset.c.name_digest, same))
    return sa.select(t.asset.c.name, _row.key, _row.value).select_from(source).where(_of_load)


@cache
def write(tables: ScopeTables, dialect: type[Dialect]) -> Any:
    """Write the entries of a slice of the load, each with its owner's newest version."""
    by: Any = sa.bindparam("writer", type_=sa.Text())
    columns = [owner_of(tables), _row.key, _row.value, tables.owner.c.revision.label("version")]
    columns.append(now.label("updated_at"))
    if tables is TASKS:
        columns.append(_row.expires_at)
        own = _row.ti_id == sa.bindparam("own", type_=t.TaskInstanceId())
        by = sa.case((own, sa.null()), else_=by)
    rows = (
        sa.select(*columns, by.label("writer"))
        .select_from(t.load_entry.join(tables.owner, tables.id == owner_of(tables)))
        .where(_of_slice)
        # In the order of the target's index, which saves more time than the sorting takes.
        .order_by(owner_of(tables), _row.key)
    )
    return dialect().upsert_from(tables.entry, [tables.owner_id.name, "key"], rows)


@cache
def add_history() -> sa.Insert:
    """Insert the entries just written from a slice as steps of their history."""
    entry, past = t.asset_entry.c, t.asset_history.alias("past").c
    latest = (
        sa.select(sa.func.coalesce(sa.func.max(past.version), 0))
        .where(past.asset_id == entry.asset_id, past.key == entry.key)
        .scalar_subquery()
    )
    names = ["asset_id", "key", "version", "previous", "value", "updated_at", "writer"]
    columns = [entry[name] if name != "previous" else latest for name in names]
    rows = sa.select(*columns).select_from(_in_slice(t.asset_entry)).where(_of_slice)
    return sa.insert(t.asset_history).from_select(names, rows)


@cache
def trim_history(dialect: type[Dialect]) -> sa.Delete:
    """Delete the steps that are too old, of the entries in a slice."""
    step = t.asset_history.alias("step")
    newest_first = sa.func.row_number().over(
        partition_by=(step.c.asset_id, step.c.key), order_by=step.c.version.desc()
    )
    ranked = (
        sa.select(step.c.id, newest_first.label("rank"))
        .select_from(_in_slice(step))
        .where(_of_slice)
        .subquery("ranked")
    )
    batch = (
        sa.select(t.asset_history.c.id)
        .select_from(t.asset_history.join(ranked, ranked.c.id == t.asset_history.c.id))
        .where(ranked.c.rank > sa.bindparam("kept"))
    )
    return dialect().delete_batch(t.asset_history, batch)


def _in_slice(table: Any) -> sa.FromClause:
    """Return rows of an asset's table joined with their counterparts in the load."""
    same = sa.and_(table.c.asset_id == _row.asset_id, table.c.key == _row.key)
    return t.load_entry.join(table, same)


SCOPE_TABLES = (TASKS, ASSETS)
