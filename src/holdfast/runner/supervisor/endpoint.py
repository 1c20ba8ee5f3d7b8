"""Endpoints by which processes other than the task's, such as executors, access its stores."""

from __future__ import annotations

from holdfast import commands as c
from holdfast.access.identity import ChildIdentity, JobIdentity, TaskIdentity
from holdfast.portable.transport import Endpoint
from holdfast.server.endpoint import Endpoints
from holdfast.store import Store
from holdfast.stores import refusals
from holdfast.wire.purpose import JobName, Purpose, Tables


def open_endpoint(
    endpoints: Endpoints, store: Store, child: ChildIdentity, purpose: Purpose
) -> Endpoint:
    """Open an endpoint for the attempt alone, or for a job of the task while its intent is current.

    It also gives access to the assets that the task declares. Raise StaleAttempt if the attempt is
    over.
    """
    scope, attempt = child.scope, child.writer.attempt
    assert attempt is not None
    if isinstance(purpose, JobName):
        newest = store.execute(c.ListAttempts(scope))[-1]
        if newest.number != attempt or newest.ended_at is not None:
            raise refusals.stale(child.writer, newest.number, newest.ended_at is None)
        return endpoints.open(JobIdentity(scope, purpose.key, purpose.intent, child.assets))
    reports = isinstance(purpose, Tables)
    return endpoints.open(TaskIdentity(scope, attempt, child.assets, reports))
