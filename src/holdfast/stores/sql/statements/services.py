"""Statements for the signs of life of services."""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa

from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, given, now
from holdfast.stores.sql.statements.scope_tables import Select

TOTAL = "total"
"""The kind of the row that has the sum of the figures of all services that are gone."""


def _this() -> sa.ColumnElement[bool]:
    return t.service.c.digest == sa.bindparam("service")


@cache
def put(dialect: type[Dialect]) -> Any:
    values = given("digest", "kind", "process", "lease", "figures")
    new = dialect().insert(t.service).values(**values, started_at=now, seen_at=now)
    return dialect().or_update(new, t.service, ["digest"])


@cache
def add_total(dialect: type[Dialect]) -> Any:
    values = given("digest") | {"kind": TOTAL, "process": "", "lease": 0}
    return dialect().insert_new(t.service).values(**values, started_at=now, seen_at=now)


@cache
def see(with_figures: bool) -> sa.Update:
    values = given("figures") if with_figures else {}
    return sa.update(t.service).where(_this()).values(seen_at=now, **values)


@cache
def lock() -> Select:
    """Select the figures of a service, locked until commit."""
    return sa.select(t.service.c.figures).where(_this()).with_for_update()


@cache
def long_unseen() -> Select:
    c = t.service.c
    unseen = c.seen_at < now - sa.bindparam("age", type_=sa.BigInteger())
    return sa.select(c.digest).where(unseen, c.kind != TOTAL).order_by(c.digest)


@cache
def delete() -> sa.Delete:
    return sa.delete(t.service).where(_this())


@cache
def services() -> Select:
    c = t.service.c
    columns = (c.kind, c.process, c.started_at, c.seen_at, c.lease, now - c.seen_at)
    return sa.select(*columns).where(c.kind != TOTAL).order_by(c.seen_at.desc(), c.digest)


@cache
def figures() -> Select:
    return sa.select(t.service.c.figures).where(t.service.c.figures.is_not(None))
