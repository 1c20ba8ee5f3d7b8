"""Statements for assets: their declarations, and those that no DAG declares any more."""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa

from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, given, now
from holdfast.stores.sql.statements.scope_tables import Select


@cache
def add_asset(dialect: type[Dialect]) -> Any:
    names = given("name", "uri", "name_digest", "uri_digest")
    new = dialect().insert_new(t.asset)
    return new.values(**names, by_hand=False, revision=0, swept_revision=0, created_at=now)


@cache
def find_asset() -> Select:
    c = t.asset.c
    same = [c[digest] == sa.bindparam(digest) for digest in ("name_digest", "uri_digest")]
    return sa.select(c.id, c.name, c.uri, c.orphaned_at, c.revision).where(sa.or_(*same))


def change_asset(**values: Any) -> sa.Update:
    """Return the update of one asset, `owner`."""
    return sa.update(t.asset).where(t.asset.c.id == sa.bindparam("owner")).values(**values)


@cache
def declare_by_hand() -> sa.Update:
    return change_asset(by_hand=True, orphaned_at=sa.null())


@cache
def drop_declarations() -> sa.Delete:
    return sa.delete(t.declaration).where(t.declaration.c.dag_id == sa.bindparam("dag_id"))


@cache
def add_declaration(dialect: type[Dialect]) -> Any:
    new = dialect().insert_new(t.declaration)
    return new.values(dag_id=sa.bindparam("dag_id"), asset_id=sa.bindparam("owner"))


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


def assets(asset: sa.FromClause = t.asset) -> Select:
    """Select assets, with a row for each DAG that declares one."""
    c, d = asset.c, t.declaration.c
    return (
        sa.select(c.id, c.name, c.uri, c.by_hand, c.orphaned_at, d.dag_id)
        .select_from(asset.outerjoin(t.declaration, d.asset_id == c.id))
        .order_by(c.name, d.dag_id)
    )


@cache
def page_of_assets() -> Select:
    page = sa.select(t.asset).order_by(t.asset.c.name)
    return assets(page.limit(sa.bindparam("limit")).offset(sa.bindparam("offset")).subquery())


@cache
def count_assets() -> Select:
    return sa.select(sa.func.count()).select_from(t.asset)


@cache
def asset_changes() -> Select:
    """Select the number of events, the number of assets and the newest id, which is never reused:
    the numbers of an asset's events only grow, so no two changes leave all three as they were."""
    c = t.asset.c
    events, newest = sa.func.sum(c.event_count), sa.func.max(c.id)
    return sa.select(
        sa.func.coalesce(events, 0), sa.func.count(), sa.func.coalesce(newest, 0)
    ).select_from(t.asset)


@cache
def asset(by: str) -> Select:
    """Select the asset that column `by` finds."""
    return assets().where(t.asset.c[by] == sa.bindparam("owner"))


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
    return assets().where(_orphaned())


@cache
def lock_orphans() -> Select:
    c = t.asset.c
    orphans = sa.select(c.id, c.name, c.uri).where(_orphaned())
    return orphans.order_by(c.id).with_for_update(key_share=True)


@cache
def mark_swept() -> sa.Update:
    return change_asset(swept_revision=t.asset.c.revision)
