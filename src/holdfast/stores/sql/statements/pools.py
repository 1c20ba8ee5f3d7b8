"""Statements for pools and the slots that running attempts take up."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa

from holdfast.model.pool import STOPPING, UNUSED_DEFAULT_POOL
from holdfast.model.run import Outcome
from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, now
from holdfast.stores.sql.statements.scope_tables import Select


def _running() -> sa.ColumnElement[bool]:
    """Return the condition for attempts whose process runs, or may still be ending."""
    c = t.attempt.c
    stopped = sa.and_(
        c.outcome == Outcome.STOPPED.value,
        c.ended_at > now - sa.literal(STOPPING // timedelta(microseconds=1), sa.BigInteger()),
    )
    return sa.and_(sa.or_(c.ended_at.is_(None), stopped), c.leased_until > now)


def _used() -> sa.ColumnElement[int]:
    return sa.cast(sa.func.coalesce(sa.func.sum(t.attempt.c.pool_slots), 0), sa.BigInteger)


def _this_pool() -> sa.ColumnElement[bool]:
    return t.pool.c.name == sa.bindparam("pool")


@cache
def lock_pool() -> Select:
    """Select the number of slots, locked until commit: nobody else takes slots meanwhile."""
    return sa.select(t.pool.c.slots, t.pool.c.description).where(_this_pool()).with_for_update()


@cache
def used_slots() -> Select:
    return sa.select(_used()).where(t.attempt.c.pool == sa.bindparam("pool"), _running())


@cache
def pools(besides: bool) -> Select:
    """Select pools with the slots in use; with `besides`, only by runs of other processes."""
    c, a = t.pool.c, t.attempt.c
    used = sa.select(_used()).where(a.pool == c.name, _running())
    if besides:
        joined = t.attempt.join(t.task_instance).join(t.run)
        others = sa.func.coalesce(t.run.c.owner, "") != sa.bindparam("process")
        used = used.select_from(joined).where(others)
    counted = used.correlate(t.pool).scalar_subquery()
    return sa.select(c.name, c.slots, c.description, counted).order_by(c.name)


@cache
def put_pool(dialect: type[Dialect]) -> Any:
    return dialect().upsert(t.pool, ["name"])


@cache
def add_default_pool(dialect: type[Dialect]) -> Any:
    default = UNUSED_DEFAULT_POOL
    values = {"slots": default.slots, "description": default.description}
    return dialect().insert_new(t.pool).values(name=default.name, **values)


@cache
def delete_pool() -> sa.Delete:
    return sa.delete(t.pool).where(_this_pool())
