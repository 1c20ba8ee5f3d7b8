"""Tokens for others: who may ask for one, and for whom."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import commands as c
from holdfast.access.identity import (
    HandleIdentity,
    Identity,
    JobIdentity,
    TaskIdentity,
    UserIdentity,
    Wanted,
    WorkerIdentity,
)
from holdfast.access.permissions import check, guard_of
from holdfast.commands import Guarded
from holdfast.errors import Forbidden
from holdfast.model.role import Role


def standing(wanted: Wanted) -> c.Command[Any]:
    """A command that succeeds while a token of theirs is good for something."""
    if isinstance(wanted, HandleIdentity):
        return c.List(wanted.scope, limit=1)
    return Guarded(guard_of(wanted), c.Now())


def issuing(identity: Identity, wanted: Wanted) -> tuple[Wanted, c.Command[Any]]:
    """Whom a token is made for when they ask for one for `wanted`, and a command that succeeds
    while they may; Forbidden where that is not theirs to give.

    Workers give to any task and job, a task to its own jobs, and editors to whom they like. Tasks
    and jobs that ask for a handle have little more than that, and get what they have. Who has a
    task's handle gives nothing to a job, which would outlive the attempt.
    """
    match identity:
        case WorkerIdentity() if not isinstance(wanted, HandleIdentity):
            return wanted, standing(wanted)
        case UserIdentity(role=Role.EDITOR | Role.ADMIN):
            if isinstance(wanted, HandleIdentity):
                wanted = msgspec.structs.replace(wanted, user=identity.user)
            return wanted, standing(wanted)
        case TaskIdentity() | JobIdentity() if isinstance(wanted, HandleIdentity):
            check(identity, c.List(wanted.scope))
            return identity, standing(identity)
        case TaskIdentity(handle=False) if (
            isinstance(wanted, JobIdentity)
            and wanted.scope == identity.scope
            and set(wanted.assets) <= set(identity.assets)
        ):
            return wanted, Guarded(guard_of(identity), standing(wanted))
    raise Forbidden(
        f"{identity} may not give a token to {wanted}",
        hint="workers give tokens to tasks, a task to its own jobs, and editors to all of them",
    )
