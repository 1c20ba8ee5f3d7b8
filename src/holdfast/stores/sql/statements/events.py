"""Statements for events of assets, their aliases, and their watchers.

`owner` is an asset.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa

from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, given, now
from holdfast.stores.sql.statements.assets import assets, change_asset
from holdfast.stores.sql.statements.runs import leased_until
from holdfast.stores.sql.statements.scope_tables import Select


@cache
def wake_asset() -> sa.Update:
    return change_asset(orphaned_at=sa.null())


@cache
def count_event() -> sa.Update:
    return change_asset(event_count=t.asset.c.event_count + 1)


def _newest_number() -> sa.ScalarSelect[Any]:
    c = t.asset.c
    return sa.select(c.event_count).where(c.id == sa.bindparam("owner")).scalar_subquery()


@cache
def add_event() -> sa.Insert:
    reported = given("extra", "source", "reported_by", "key")
    return sa.insert(t.asset_event).values(
        **reported, asset_id=sa.bindparam("owner"), number=_newest_number(), at=now
    )


@cache
def add_alias(dialect: type[Dialect]) -> Any:
    """Insert an alias, for an event that has been counted."""
    new = dialect().insert_new(t.asset_alias)
    names = given("alias_digest", "alias")
    return new.values(**names, asset_id=sa.bindparam("owner"), since=_newest_number() - 1)


@cache
def assets_behind() -> Select:
    a = t.asset_alias.c
    behind = sa.select(a.asset_id).where(a.alias_digest == sa.bindparam("alias_digest"))
    return assets().where(t.asset.c.id.in_(behind))


def _events() -> Select:
    e, a = t.asset_event.c, t.asset.c
    reported = e.at, e.extra, e.source, e.reported_by, e.key
    return sa.select(a.id, a.name, a.uri, e.number, *reported)


@cache
def events(by: str | None) -> Select:
    """Select events, newest first: of the asset that column `by` finds, or of all."""
    e = t.asset_event.c
    select = _events().select_from(t.asset_event.join(t.asset))
    select = select.limit(sa.bindparam("limit")).offset(sa.bindparam("offset"))
    if by is None:
        return select.order_by(e.at.desc(), e.asset_id, e.number.desc())
    return select.where(t.asset.c[by] == sa.bindparam("owner")).order_by(e.number.desc())


@cache
def event_of_key() -> Select:
    e = t.asset_event.c
    select = _events().select_from(t.asset_event.join(t.asset))
    return select.where(e.asset_id == sa.bindparam("owner"), e.key == sa.bindparam("key"))


@cache
def take_events() -> sa.Insert:
    """Assign the events after `consumed`, up to `counted`, to the run."""
    e = t.asset_event.c
    run = sa.bindparam("run", type_=sa.BigInteger())
    news = sa.select(run, e.asset_id, e.number).where(
        e.asset_id == sa.bindparam("owner"),
        e.number > sa.bindparam("consumed"),
        e.number <= sa.bindparam("counted"),
    )
    return sa.insert(t.run_event).from_select(["run", "asset_id", "number"], news)


@cache
def events_of_run() -> Select:
    e, r, of = t.asset_event.c, t.run.c, t.run_event.c
    same = sa.and_(e.asset_id == of.asset_id, e.number == of.number)
    joined = t.run_event.join(t.asset_event, same).join(t.asset, t.asset.c.id == e.asset_id)
    return (
        _events()
        .select_from(joined.join(t.run, r.id == of.run))
        .where(r.dag_id == sa.bindparam("dag_id"), r.run_id == sa.bindparam("run_id"))
        .order_by(e.at, e.asset_id, e.number)
        .limit(sa.bindparam("limit"))
        .offset(sa.bindparam("offset"))
    )


def _this_watcher() -> sa.ColumnElement[bool]:
    c = t.watcher.c
    return sa.and_(c.asset_id == sa.bindparam("owner"), c.name == sa.bindparam("watcher"))


@cache
def lock_watcher() -> Select:
    c = t.watcher.c
    return (
        sa.select(c.number, c.owner, c.leased_until > now)
        .where(_this_watcher())
        .with_for_update(key_share=True)
    )


@cache
def watchers() -> Select:
    c, a = t.watcher.c, t.asset.c
    return (
        sa.select(a.id, a.name, a.uri, c.name, c.number, c.owner, c.leased_until)
        .select_from(t.watcher.join(t.asset))
        .order_by(a.name, c.name)
    )


def _watch() -> dict[str, Any]:
    held: dict[str, Any] = {"number": sa.bindparam("count"), "owner": sa.bindparam("process")}
    return held | {"leased_until": leased_until}


@cache
def add_watcher() -> sa.Insert:
    who: dict[str, Any] = {"asset_id": sa.bindparam("owner"), "name": sa.bindparam("watcher")}
    return sa.insert(t.watcher).values(**who, **_watch())


@cache
def change_watcher() -> sa.Update:
    return sa.update(t.watcher).where(_this_watcher()).values(**_watch())


def _this_watch() -> sa.ColumnElement[bool]:
    return sa.and_(_this_watcher(), t.watcher.c.number == sa.bindparam("count"))


@cache
def renew_watch() -> sa.Update:
    return sa.update(t.watcher).where(_this_watch()).values(leased_until=leased_until)


@cache
def newest_watch() -> Select:
    return sa.select(t.watcher.c.number).where(_this_watch())
