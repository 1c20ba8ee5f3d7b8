"""Statements for the history of assets' entries."""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa

from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import given, now
from holdfast.stores.sql.statements.scope_tables import Select, of_key


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
        **given("key", "version", "value", "writer"),
        asset_id=sa.bindparam("owner"),
        previous=latest.scalar_subquery(),
        updated_at=sa.func.coalesce(written.scalar_subquery(), now),
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
def delete_history() -> sa.Delete:
    return sa.delete(t.asset_history).where(t.asset_history.c.asset_id == sa.bindparam("owner"))
