"""Statements that count the current activity."""

from __future__ import annotations

from functools import cache

import sqlalchemy as sa

from holdfast.model.run import RunKind, RunState, TaskState
from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import now
from holdfast.stores.sql.statements.scope_tables import Select


@cache
def open_tasks() -> Select:
    r, i = t.run.c, t.task_instance.c
    # Not IDLE, of which only external runs are: there may be very many.
    runs = [sa.literal(state.value) for state in (RunState.QUEUED, RunState.RUNNING)]
    states = [sa.literal(state.value) for state in TaskState if not state.ended]
    return (
        sa.select(i.state, sa.func.count())
        .select_from(t.run.join(t.task_instance))
        .where(r.state.in_(runs), r.kind != RunKind.EXTERNAL.value, i.state.in_(states))
        .group_by(i.state)
    )


@cache
def import_errors() -> Select:
    failed = t.dag_file.c.error.is_not(None)
    return sa.select(sa.func.count()).select_from(t.dag_file).where(failed)


@cache
def present_dags() -> Select:
    return sa.select(sa.func.count()).select_from(t.dag).where(t.dag.c.stale_at.is_(None))


@cache
def watchers() -> Select:
    """Select watchers that ran lately, with the time of the newest event of their assets."""
    w, a, e = t.watcher.c, t.asset.c, t.asset_event.c
    newest = sa.and_(e.asset_id == a.id, e.number == a.event_count)
    return (
        sa.select(a.name, w.name, w.leased_until > now, e.at)
        .select_from(t.watcher.join(t.asset).outerjoin(t.asset_event, newest))
        .where(w.leased_until > now - sa.bindparam("age", type_=sa.BigInteger()))
        .order_by(a.name, w.name)
    )
