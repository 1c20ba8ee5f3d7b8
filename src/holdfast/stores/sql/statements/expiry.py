"""Statements for the expiry of task entries: what is live, and the cleanup of the rest."""

from __future__ import annotations

from functools import cache

import sqlalchemy as sa

from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, now
from holdfast.stores.sql.statements.scope_tables import ScopeTables, Select


def live(tables: ScopeTables) -> sa.ColumnElement[bool]:
    """Return the condition for entries that have not expired."""
    if "expires_at" not in tables.entry.c:
        return sa.true()
    expiry = tables.entry.c.expires_at
    return sa.or_(expiry.is_(None), expiry > now)


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
