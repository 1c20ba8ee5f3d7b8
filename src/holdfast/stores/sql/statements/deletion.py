"""Statements for deleted runs and assets: the highest version and attempt that they had.

A run or asset that is created again under the same name continues from there, so that no version
and no attempt number is used twice.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa

from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect


@cache
def remember_deleted_run(dialect: type[Dialect]) -> Any:
    return dialect().upsert(t.deleted_run, ["dag_id", "run_id"])


def reached_before(column: str, run: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """Return the highest revision or attempt of a deleted run with the same ids as this one."""
    former, c = t.deleted_run.c, t.run.alias("its_run").c
    same = sa.and_(former.dag_id == c.dag_id, former.run_id == c.run_id, c.id == run)
    reached = sa.select(sa.func.coalesce(sa.func.max(former[column]), 0)).where(same)
    return reached.scalar_subquery()


@cache
def resume_revision() -> sa.Update:
    """Let a new asset continue from the revision of a deleted one with its name or its URI.

    A separate statement, because the INSERT may have waited for the deletion that it has to see.
    """
    former, c = t.deleted_asset.c, t.asset.c
    reached = sa.select(sa.func.max(former.revision)).where(
        former.digest.in_([sa.bindparam("name_digest"), sa.bindparam("uri_digest")])
    )
    last = reached.scalar_subquery()
    return (
        sa.update(t.asset)
        .where(c.id == sa.bindparam("owner"), c.revision < last)
        .values(revision=last, swept_revision=last)
    )


@cache
def remember_deleted_asset(dialect: type[Dialect]) -> Any:
    return dialect().upsert(t.deleted_asset, ["digest"])
