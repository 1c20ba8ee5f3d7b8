"""Issuing of tokens for others: who may request one, and for whom."""

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
    """Return a command that succeeds while a token of `wanted` is good for something."""
    if isinstance(wanted, HandleIdentity):
        return c.List(wanted.scope, limit=1)
    return Guarded(guard_of(wanted), c.Now())


def issuing(identity: Identity, wanted: Wanted) -> tuple[Wanted, c.Command[Any]]:
    """Return the bearer of a token that is requested for `wanted`, and a command that succeeds
    while it may be issued. Raise Forbidden where the caller may not request it.

    Workers may give tokens to any task and job, a task to its own jobs, and editors to anyone.
    Tasks and jobs that request a handle, which has hardly less than they have, get a token of their
    own. The holder of a task's handle may not give one to a job, which would outlive the attempt.
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
        f"{identity} may not issue a token to {wanted}",
        hint="workers issue tokens to tasks, a task to its own jobs, and editors to all of them",
    )
