"""Statements for alerts, the conditions that raise them, and their delivery."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from holdfast.model.alert import AlertStatus
from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, given, now
from holdfast.stores.sql.statements.runs import one_of
from holdfast.stores.sql.statements.scope_tables import Select

CHECK: Final = "check"
"""The kind, and the subject, of the row of a channel that is due at the next check."""

_row = t.alert.c
_COLUMNS = (
    *(_row.id, _row.channel, _row.kind, _row.facts, _row.raised_at, _row.resolved_at),
    *(_row.delivered, _row.tries, _row.due_at, _row.error),
)


def _this() -> sa.ColumnElement[bool]:
    return _row.id == sa.bindparam("alert")


def _of_channel() -> sa.ColumnElement[bool]:
    return sa.and_(_row.channel == sa.bindparam("channel"), _row.kind != CHECK)


def _this_check() -> sa.ColumnElement[bool]:
    return sa.and_(_row.channel == sa.bindparam("channel"), _row.subject == CHECK)


def _span(name: str) -> sa.ColumnElement[int]:
    return sa.bindparam(name, type_=sa.BigInteger())


@cache
def add() -> Any:
    """Insert an alert that is due after `wait`."""
    values = given("channel", "kind", "subject", "facts")
    return sa.insert(t.alert).values(**values, raised_at=now, tries=0, due_at=now + _span("wait"))


@cache
def next_check() -> Select:
    """Select whether the next check is due; no row before the first."""
    return sa.select(_row.due_at <= now).where(_this_check())


@cache
def add_check(dialect: type[Dialect]) -> Any:
    """Insert the row of the check, due at once, if there is none."""
    row = given("channel") | {"kind": CHECK, "subject": CHECK, "facts": "{}", "tries": 0}
    return dialect().insert_new(t.alert).values(**row, raised_at=now, due_at=0)


@cache
def begin_check() -> sa.Update:
    """Claim a check that is due; its row is locked until commit."""
    due = sa.and_(_this_check(), _row.due_at <= now)
    return sa.update(t.alert).where(due).values(due_at=now + _span("interval"))


@cache
def broken_files() -> Select:
    c = t.dag_file.c
    return sa.select(c.file, c.error).where(c.error.is_not(None)).order_by(c.file)


@cache
def newest_events(count: int) -> Select:
    """Select assets by the digests of their names, with the time of the newest event, and the time
    since it; or, if there was none, since the asset was declared."""
    a, e = t.asset.c, t.asset_event.c
    newest = sa.and_(e.asset_id == a.id, e.number == a.event_count)
    return (
        sa.select(a.name, e.at, now - sa.func.coalesce(e.at, a.created_at))
        .select_from(t.asset.outerjoin(t.asset_event, newest))
        .where(one_of(a.name_digest, count))
        .order_by(a.name)
    )


@cache
def lasting() -> Select:
    """Select the alerts of a channel whose conditions lasted at the last check."""
    columns = (_row.id, _row.subject, _row.kind, _row.facts, _row.raised_at)
    return sa.select(*columns).where(_of_channel(), _row.subject.is_not(None))


@cache
def drop_untried() -> sa.Delete:
    """Delete an alert of which no delivery was tried."""
    return sa.delete(t.alert).where(_this(), _row.tries == 0, _row.delivered.is_(None))


@cache
def resolve() -> sa.Update:
    due = sa.func.coalesce(_row.due_at, now)
    return sa.update(t.alert).where(_this()).values(subject=sa.null(), resolved_at=now, due_at=due)


@cache
def forget() -> sa.Delete:
    ended = sa.func.coalesce(_row.resolved_at, _row.raised_at)
    return sa.delete(t.alert).where(_row.subject.is_(None), ended < now - _span("age"))


@cache
def withdraw() -> sa.Update:
    waiting = sa.or_(_row.subject.is_not(None), _row.due_at.is_not(None))
    values = {"subject": sa.null(), "due_at": sa.null()}
    return sa.update(t.alert).where(_of_channel(), waiting).values(**values)


@cache
def due() -> Select:
    due = sa.select(*_COLUMNS).where(_of_channel(), _row.due_at <= now)
    return due.order_by(_row.tries, _row.id.desc()).limit(1)


@cache
def lock_due(dialect: type[Dialect]) -> Select:
    return dialect().lock(due(), t.alert, skip=True)


@cache
def take() -> sa.Update:
    values = {"tries": _row.tries + 1, "due_at": now + _span("lease")}
    return sa.update(t.alert).where(_this()).values(**values)


@cache
def finish() -> sa.Update:
    """Record a delivery; what was resolved meanwhile is due at once."""
    status = sa.bindparam("status", type_=sa.String())
    outdated = sa.and_(_row.resolved_at.is_not(None), status == AlertStatus.FIRING.value)
    last = sa.func.coalesce(_row.delivered, "") != AlertStatus.RESOLVED.value
    due = sa.case((outdated, now), else_=sa.null())
    values = {"delivered": status, "tries": 0, "error": sa.null(), "due_at": due}
    return sa.update(t.alert).where(_this(), last).values(**values)


@cache
def fail() -> sa.Update:
    """Record why a delivery failed, unless another one has succeeded."""
    due = now + _span("wait")  # NULL: never
    still_due = _row.due_at.is_not(None)
    return sa.update(t.alert).where(_this(), still_due).values(due_at=due, **given("error"))


@cache
def alerts() -> Select:
    listed = sa.select(*_COLUMNS).where(_row.kind != CHECK).order_by(_row.id.desc())
    return listed.limit(sa.bindparam("limit")).offset(sa.bindparam("offset"))


@cache
def count_undelivered() -> Select:
    due = sa.and_(_row.due_at.is_not(None), _row.kind != CHECK)
    return sa.select(sa.func.count()).select_from(t.alert).where(due)
