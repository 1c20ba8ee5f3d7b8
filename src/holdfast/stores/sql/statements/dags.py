"""Statements for DAG files, their DAGs, and schedules on assets."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from holdfast.model.run import RunKind
from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, given, now
from holdfast.stores.sql.rows import digest
from holdfast.stores.sql.statements.runs import one_of
from holdfast.stores.sql.statements.scope_tables import Select

NOWHERE: Final = digest("")
"""Digest of the placeholder file of DAGs that no file holds."""
SEEN_LATELY: Final = 30_000_000
"""Microseconds for which a DAG counts as held by the scheduler that has seen it."""


@cache
def save_file(dialect: type[Dialect]) -> Any:
    return dialect().upsert(t.dag_file, ["digest"]).values(saved_at=now)


@cache
def add_file(dialect: type[Dialect]) -> Any:
    given: dict[str, Any] = {name: sa.bindparam(name) for name in ("digest", "file")}
    return dialect().insert_new(t.dag_file).values(given | {"saved_at": now})


@cache
def lock_file() -> Select:
    return file_name().with_for_update()


@cache
def add_nowhere(dialect: type[Dialect]) -> Any:
    return dialect().insert_new(t.dag_file).values(digest=NOWHERE, file="", saved_at=now)


@cache
def forget_file() -> sa.Delete:
    return sa.delete(t.dag_file).where(t.dag_file.c.digest == sa.bindparam("digest"))


@cache
def files(broken: bool = False) -> Select:
    c = t.dag_file.c
    select = sa.select(c.file, c.saved_at, c.error).where(c.file != "")
    select = select.where(c.error.is_not(None)) if broken else select
    page = select.order_by(c.file, c.digest)
    return page.limit(sa.bindparam("limit")).offset(sa.bindparam("offset"))


@cache
def forget_old_errors() -> sa.Update:
    c = t.dag_file.c
    old = c.error.is_not(None), c.saved_at < now - sa.bindparam("after", type_=sa.BigInteger())
    return sa.update(t.dag_file).where(*old).values(error=sa.null())


@cache
def file_name() -> Select:
    return sa.select(t.dag_file.c.file).where(t.dag_file.c.digest == sa.bindparam("digest"))


def _dags(specs: bool = True) -> Select:
    c = t.dag.c
    spec = c.spec if specs else sa.literal("").label("spec")
    return (
        sa.select(c.dag_id, t.dag_file.c.file, spec, c.paused, c.scheduled_until)
        .add_columns(c.saved_at, c.created_at, c.seen_at, c.stale_at)
        .select_from(t.dag.join(t.dag_file))
        .order_by(c.dag_id)
    )


@cache
def dags(specs: bool = True) -> Select:
    return _dags(specs).limit(sa.bindparam("limit")).offset(sa.bindparam("offset"))


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


def _change_dag(**values: Any) -> sa.Update:
    return sa.update(t.dag).where(_this_dag()).values(**values)


@cache
def schedule() -> Select:
    c = t.dag.c
    return sa.select(c.file_digest, c.spec, c.paused).where(_this_dag())


@cache
def lock_dag() -> Select:
    """Select the schedule, and whether a scheduler has ever, or lately, seen the DAG; locked."""
    seen_at = t.dag.c.seen_at
    seen = seen_at.is_not(None), seen_at > now - SEEN_LATELY
    return schedule().add_columns(*seen).with_for_update(key_share=True)


@cache
def add_dag() -> sa.Insert:
    """Insert a DAG. If it existed before, its schedule continues where it was."""
    r = t.run.c
    scheduled = sa.and_(r.dag_id == sa.bindparam("dag_id"), r.kind == RunKind.SCHEDULED.value)
    newest = sa.select(sa.func.max(r.logical_date)).where(scheduled).scalar_subquery()
    return sa.insert(t.dag).values(
        **given("dag_id", "spec", "paused"),
        file_digest=sa.bindparam("digest"),
        scheduled_until=newest,
        saved_at=now,
        created_at=now,
        seen_at=_seen(),
    )


@cache
def change_dag() -> sa.Update:
    return _change_dag(
        spec=sa.bindparam("spec"),
        file_digest=sa.bindparam("digest"),
        saved_at=now,
        seen_at=sa.func.coalesce(_seen(), t.dag.c.seen_at),
        stale_at=sa.null(),
    )


def _seen() -> sa.ColumnElement[int]:
    return sa.case((sa.bindparam("seen", type_=sa.Boolean(create_constraint=False)), now))


@cache
def let_go_of_dag(unless_seen: bool) -> sa.Update:
    """Detach the DAG from the file, if that holds it; it counts as seen until now.

    A stale one does not, and is to be marked as stale anew, with its declarations dropped.
    """
    c = t.dag.c
    held = [c.file_digest == sa.bindparam("digest")]
    if unless_seen:
        held.append(sa.or_(c.seen_at.is_(None), c.seen_at <= now - SEEN_LATELY))
    seen_at = sa.case((c.stale_at.is_(None), now), else_=c.seen_at)
    values = (c.file_digest, NOWHERE), (c.seen_at, seen_at), (c.stale_at, sa.null())
    # In this order: MySQL computes a value from those that are set before it.
    return sa.update(t.dag).where(_this_dag(), *held).ordered_values(*values)


@cache
def see_dags(count: int) -> sa.Update:
    return sa.update(t.dag).where(*_held(count)).values(seen_at=now)


@cache
def held_dags(count: int) -> Select:
    return sa.select(t.dag.c.dag_id).where(*_held(count))


def _held(count: int) -> tuple[sa.ColumnElement[bool], ...]:
    c = t.dag.c
    return one_of(c.dag_id, count), c.file_digest != NOWHERE, c.stale_at.is_(None)


@cache
def unseen_dags() -> Select:
    """Select DAGs unseen for `after` and not marked as stale, with their files; locked."""
    c = t.dag.c
    long = c.seen_at < now - sa.bindparam("after", type_=sa.BigInteger())
    select = sa.select(c.dag_id, c.file_digest).where(long, c.stale_at.is_(None))
    return select.order_by(c.dag_id).with_for_update(key_share=True)


@cache
def retire_dag() -> sa.Update:
    return _change_dag(stale_at=now)


@cache
def pause_dag() -> sa.Update:
    return _change_dag(paused=sa.bindparam("paused"))


@cache
def delete_dag() -> sa.Delete:
    return sa.delete(t.dag).where(_this_dag())


@cache
def schedule_until() -> sa.Update:
    """Set the date until which the DAG is scheduled, which never moves back."""
    until, date = t.dag.c.scheduled_until, sa.bindparam("logical_date", type_=sa.BigInteger())
    return _change_dag(scheduled_until=date).where(sa.or_(until.is_(None), until < date))


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
    """Select the asset's id and newest event, and 0 as the last event that does not count."""
    c = t.asset.c
    return sa.select(c.id, c.event_count, sa.literal(0, sa.BigInteger())).where(
        c[by] == sa.bindparam("owner")
    )


@cache
def scheduled_assets_behind() -> Select:
    """Select the ids and newest events of the assets behind an alias, and for each the last event
    before the alias was first named."""
    a = t.asset_alias.c
    return (
        sa.select(t.asset.c.id, t.asset.c.event_count, a.since)
        .select_from(t.asset_alias.join(t.asset))
        .where(a.alias_digest == sa.bindparam("alias_digest"))
    )
