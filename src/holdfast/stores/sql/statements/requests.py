"""Statements for clients' requests, and for reads while an attempt is live.

Parameters: `who` (the client), `count` (its request's number), `command` (its command's digest),
`reply` (its answer's JSON text).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa

from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import now
from holdfast.stores.sql.statements.expiry import live
from holdfast.stores.sql.statements.scope_tables import TASKS, Select, of_key


def _of_client() -> sa.ColumnElement[bool]:
    return t.client_request.c.client == sa.bindparam("who")


@cache
def latest() -> Select:
    c = t.client_request.c
    return sa.select(c.number, c.command_digest, c.answer).where(_of_client())


def _request() -> dict[str, Any]:
    return {
        "number": sa.bindparam("count"),
        "command_digest": sa.bindparam("command"),
        "answer": sa.bindparam("reply"),
        "answered_at": now,
    }


@cache
def add_first() -> sa.Insert:
    return sa.insert(t.client_request).values(client=sa.bindparam("who"), **_request())


@cache
def replace_earlier() -> sa.Update:
    """Replace the client's latest request. No row changes if that is this one, or later."""
    earlier = t.client_request.c.number < sa.bindparam("count")
    return sa.update(t.client_request).where(_of_client(), earlier).values(**_request())


@cache
def set_answer() -> sa.Update:
    return sa.update(t.client_request).where(_of_client()).values(answer=sa.bindparam("reply"))


@cache
def forget() -> sa.Delete:
    answered_at = t.client_request.c.answered_at
    return sa.delete(t.client_request).where(answered_at < sa.bindparam("cutoff"))


def _attempts() -> list[sa.ColumnElement[Any]]:
    return [t.task_instance.c.attempt, t.task_instance.c.live_attempt]


@cache
def attempts() -> Select:
    """Select the newest attempt of a task instance, and the live one."""
    return sa.select(*_attempts()).where(t.task_instance.c.ti_id == sa.bindparam("owner"))


@cache
def state() -> Select:
    """Select the state of a task instance."""
    c = t.task_instance.c
    return sa.select(c.state).where(c.ti_id == sa.bindparam("owner"))


@cache
def own_value() -> Select:
    """Select the attempts and the value of a key: a single query for the most frequent read."""
    ti, e = t.task_instance, t.task_entry
    matching = sa.and_(e.c.ti_id == ti.c.ti_id, of_key(e), live(TASKS))
    return (
        sa.select(*_attempts(), e.c.value)
        .select_from(ti.outerjoin(e, matching))
        .where(ti.c.ti_id == sa.bindparam("owner"))
    )
