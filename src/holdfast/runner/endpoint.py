"""Where processes beside the task's own, such as Spark's executors, reach its stores."""

from __future__ import annotations

from holdfast import run_command as r
from holdfast.authority import Assets, JobIdentity, TaskIdentity
from holdfast.dagspec import AliasSpec, TaskSpec
from holdfast.entry import TaskWriter
from holdfast.runner.messages import JobName, Purpose, Tables
from holdfast.server.endpoint import Endpoints
from holdfast.store import Store
from holdfast.transport import Endpoint


def open_endpoint(
    endpoints: Endpoints, store: Store, task: TaskSpec, writer: TaskWriter, purpose: Purpose
) -> Endpoint:
    """For the attempt alone, or for a job of the task while its intent is current; and for the
    assets that the task declares."""
    assert writer.attempt is not None
    assets = declared(task, store)
    if isinstance(purpose, JobName):
        return endpoints.open(JobIdentity(writer.scope, purpose.key, purpose.intent, assets))
    reports = isinstance(purpose, Tables)
    return endpoints.open(TaskIdentity(writer.scope, writer.attempt, assets, reports))


def declared(task: TaskSpec, store: Store) -> Assets:
    """The concrete assets among a task's inlets and outlets."""
    found: dict[tuple[str | None, str | None], None] = {}
    for one in task.inlets:
        if isinstance(one, AliasSpec):
            known = store.execute(r.AliasAssets(one.name))
            found |= dict.fromkeys((asset.name, asset.uri) for asset in known)
    for one in (*task.inlets, *task.outlets):
        if not isinstance(one, AliasSpec):
            found[one.name, one.uri] = None
    return tuple(found)
