"""The statements about DAG files, their DAGs, and the schedules of those on assets."""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa

from holdfast.run import RunKind
from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, now
from holdfast.stores.sql.statements import Select


@cache
def save_file(dialect: type[Dialect]) -> Any:
    return dialect().upsert(t.dag_file, ["digest"]).values(saved_at=now)


@cache
def forget_file() -> sa.Delete:
    return sa.delete(t.dag_file).where(t.dag_file.c.digest == sa.bindparam("digest"))


@cache
def files() -> Select:
    c = t.dag_file.c
    return sa.select(c.file, c.saved_at, c.error)


@cache
def file_name() -> Select:
    return sa.select(t.dag_file.c.file).where(t.dag_file.c.digest == sa.bindparam("digest"))


def _dags() -> Select:
    c = t.dag.c
    return (
        sa.select(c.dag_id, t.dag_file.c.file, c.spec, c.paused, c.scheduled_until, c.saved_at)
        .select_from(t.dag.join(t.dag_file))
        .order_by(c.dag_id)
    )


@cache
def dags() -> Select:
    return _dags().limit(sa.bindparam("limit")).offset(sa.bindparam("offset"))


@cache
def dag() -> Select:
    return _dags().where(_this_dag())


@cache
def dag_ids() -> Select:
    return sa.select(t.dag.c.dag_id).order_by(t.dag.c.dag_id)


@cache
def dags_of_file() -> Select:
    return dag_ids().where(t.dag.c.file_digest == sa.bindparam("digest"))


def _this_dag() -> sa.ColumnElement[bool]:
    return t.dag.c.dag_id == sa.bindparam("dag_id")


@cache
def schedule() -> Select:
    c = t.dag.c
    return sa.select(c.file_digest, c.spec, c.paused).where(_this_dag())


@cache
def lock_dag() -> Select:
    """The same, locked until commit."""
    return schedule().with_for_update(key_share=True)


@cache
def add_dag() -> sa.Insert:
    """If it was known before, its schedule goes on where it was."""
    r = t.run.c
    scheduled = sa.and_(r.dag_id == sa.bindparam("dag_id"), r.kind == RunKind.SCHEDULED.value)
    newest = sa.select(sa.func.max(r.logical_date)).where(scheduled).scalar_subquery()
    given: dict[str, Any] = {name: sa.bindparam(name) for name in ("dag_id", "spec", "paused")}
    return sa.insert(t.dag).values(
        **given, file_digest=sa.bindparam("digest"), scheduled_until=newest, saved_at=now
    )


@cache
def change_dag() -> sa.Update:
    given: dict[str, Any] = {"spec": sa.bindparam("spec"), "file_digest": sa.bindparam("digest")}
    return sa.update(t.dag).where(_this_dag()).values(**given, saved_at=now)


@cache
def pause_dag() -> sa.Update:
    return sa.update(t.dag).where(_this_dag()).values(paused=sa.bindparam("paused"))


@cache
def forget_dag() -> sa.Delete:
    return sa.delete(t.dag).where(_this_dag())


@cache
def schedule_until() -> sa.Update:
    """It never moves back."""
    until, date = t.dag.c.scheduled_until, sa.bindparam("logical_date", type_=sa.BigInteger())
    earlier = sa.or_(until.is_(None), until < date)
    return sa.update(t.dag).where(_this_dag(), earlier).values(scheduled_until=date)


@cache
def cursors() -> Select:
    c = t.asset_schedule.c
    return sa.select(c.asset_id, c.consumed).where(c.dag_id == sa.bindparam("dag_id"))


@cache
def put_cursor(dialect: type[Dialect]) -> Any:
    return dialect().upsert(t.asset_schedule, ["dag_id", "asset_id"])


@cache
def drop_cursors() -> sa.Delete:
    c = t.asset_schedule.c
    return sa.delete(t.asset_schedule).where(c.dag_id == sa.bindparam("dag_id"))


@cache
def scheduled_asset(by: str) -> Select:
    """Its id and newest event, and the last event from before it was on any schedule: none."""
    c = t.asset.c
    return sa.select(c.id, c.event_count, sa.literal(0, sa.BigInteger())).where(
        c[by] == sa.bindparam("owner")
    )


@cache
def scheduled_assets_behind() -> Select:
    """The same of the assets behind an alias, which counts from when it was first named."""
    a = t.asset_alias.c
    return (
        sa.select(t.asset.c.id, t.asset.c.event_count, a.since)
        .select_from(t.asset_alias.join(t.asset))
        .where(a.alias_digest == sa.bindparam("alias_digest"))
    )
