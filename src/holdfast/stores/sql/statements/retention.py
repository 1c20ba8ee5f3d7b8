"""Statements for retention: runs and asset events that are deleted by age.

The times that a plan fixes are parameters: `as_of`, `before`, `external_before` and
`abandoned_before`, any of which but the first may be NULL.
"""

from __future__ import annotations

from functools import cache

import sqlalchemy as sa

from holdfast.model.run import RunKind, RunState
from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, now
from holdfast.stores.sql.statements.runs import one_of
from holdfast.stores.sql.statements.scope_tables import Select

_ENDED = [sa.literal(state.value) for state in RunState if state.ended]


def _time(name: str) -> sa.ColumnElement[int]:
    return sa.bindparam(name, type_=sa.BigInteger())


def _prunable(by_dag: bool, by_state: bool) -> sa.ColumnElement[bool]:
    """Return the condition that the preview and the deletion of runs share."""
    r = t.run.c
    external = r.kind == RunKind.EXTERNAL.value
    conditions = [
        sa.or_(sa.and_(~external, _past()), sa.and_(external, _unused())),
        ~_has_live_state(),
    ]
    if by_dag:
        conditions.append(r.dag_id == sa.bindparam("dag_id"))
    if by_state:
        conditions.append(r.state == sa.bindparam("state"))
    return sa.and_(*conditions)


def _past() -> sa.ColumnElement[bool]:
    """Return the condition for runs of DAGs that have ended, and that nothing needs."""
    r, newer = t.run.c, t.run.alias("newer").c
    is_newer = [newer.dag_id == r.dag_id, newer.id > r.id, newer.kind == r.kind]
    ended_later = sa.exists().where(*is_newer, newer.state.in_(_ENDED))
    d, ti = t.dag.c, t.task_instance.c
    unreached = sa.or_(d.scheduled_until.is_(None), d.scheduled_until < r.logical_date)
    awaited = sa.and_(
        r.kind == RunKind.BACKFILL.value, sa.exists().where(d.dag_id == r.dag_id, unreached)
    )
    live = sa.exists().where(ti.run == r.id, ti.live_attempt.is_not(None))
    return sa.and_(r.state.in_(_ENDED), r.ended_at <= _time("before"), ended_later, ~awaited, ~live)


def _unused() -> sa.ColumnElement[bool]:
    """Return the condition for external runs that no program has used since the cut-off."""
    r, ti, a = t.run.c, t.task_instance.c, t.attempt.c
    before = _time("external_before")
    abandoned = sa.func.coalesce(_time("abandoned_before"), 0)
    live = sa.and_(a.ended_at.is_(None), sa.or_(a.started_at > abandoned, a.leased_until > now))
    used = sa.or_(a.ended_at > before, live)
    attempts = t.attempt.join(t.task_instance, ti.ti_id == a.ti_id)
    of_run = sa.select(sa.literal(1)).select_from(attempts).where(ti.run == r.id, used)
    last = sa.func.coalesce(r.ended_at, r.started_at, r.created_at)
    return sa.and_(last <= before, ~of_run.exists())


def _has_live_state() -> sa.ColumnElement[bool]:
    """Return the condition for runs with staged writes, or with entries that have not expired; for
    external runs, also with entries that were written since the cut-off."""
    r, ti, e, w = t.run.c, t.task_instance.c, t.task_entry.c, t.staged_write.c
    lasting = sa.or_(e.expires_at.is_(None), e.expires_at > _time("as_of"))
    recent = sa.and_(r.kind == RunKind.EXTERNAL.value, e.updated_at > _time("external_before"))
    entries = t.task_entry.join(t.task_instance, ti.ti_id == e.ti_id)
    writes = t.staged_write.join(t.task_instance, ti.ti_id == w.ti_id)
    one = sa.select(sa.literal(1))
    live = one.select_from(entries).where(ti.run == r.id, sa.or_(lasting, recent))
    staged = one.select_from(writes).where(ti.run == r.id)
    return sa.or_(live.exists(), staged.exists())


@cache
def prunable_runs(by_dag: bool, by_state: bool) -> Select:
    r = t.run.c
    facts = (r.id, r.dag_id, r.run_id, r.kind, r.state, r.created_at, r.ended_at)
    return (
        sa.select(*facts)
        .where(r.id > sa.bindparam("after"), _prunable(by_dag, by_state))
        .order_by(r.id)
        .limit(sa.bindparam("limit"))
    )


@cache
def is_prunable(by_dag: bool, by_state: bool) -> Select:
    """Select the names of a run, if it is to be pruned."""
    r = t.run.c
    this = r.id == sa.bindparam("run")
    return sa.select(r.dag_id, r.run_id).where(this, _prunable(by_dag, by_state))


@cache
def lock_runs(dialect: type[Dialect], count: int) -> Select:
    """Select those of the runs that no other process has locked; locked until commit."""
    runs = sa.select(t.run.c.id).where(one_of(t.run.c.id, count)).order_by(t.run.c.id)
    return dialect().lock(runs, t.run, skip=True)


@cache
def deleted_runs(count: int) -> Select:
    d, r = t.deleted_run.c, t.run.c
    again = sa.exists().where(r.dag_id == d.dag_id, r.run_id == d.run_id)
    return sa.select(d.run_id).where(
        d.dag_id == sa.bindparam("dag_id"), one_of(d.run_id, count), ~again
    )


def _old_event() -> sa.ColumnElement[bool]:
    """Return the condition that the preview and the deletion of events share, apart from the
    cursors of DAGs."""
    e, a, of = t.asset_event.c, t.asset.c, t.run_event.c
    newer = sa.exists().where(a.id == e.asset_id, a.event_count > e.number)
    started = sa.exists().where(of.asset_id == e.asset_id, of.number == e.number)
    return sa.and_(e.at <= _time("before"), newer, ~started)


@cache
def old_events() -> Select:
    e = t.asset_event.c
    asset, number = _time("after_asset"), _time("after_number")
    after = sa.or_(e.asset_id > asset, sa.and_(e.asset_id == asset, e.number > number))
    return (
        sa.select(e.asset_id, e.number)
        .where(after, _old_event())
        .order_by(e.asset_id, e.number)
        .limit(sa.bindparam("limit"))
    )


@cache
def delete_event() -> sa.Delete:
    e = t.asset_event.c
    this = e.asset_id == sa.bindparam("asset"), e.number == sa.bindparam("event")
    return sa.delete(t.asset_event).where(*this, _old_event())


@cache
def dags_on_assets() -> Select:
    """Select the DAGs whose spec may contain a schedule on assets."""
    c = t.dag.c
    return sa.select(c.dag_id, c.spec).where(c.spec.like('%"type":"assets"%'))
