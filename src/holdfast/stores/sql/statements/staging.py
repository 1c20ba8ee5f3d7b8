"""Statements for staged writes, which take effect with the success of an attempt."""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa

from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, now
from holdfast.stores.sql.statements.scope_tables import Select, of_key


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
