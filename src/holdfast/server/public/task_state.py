"""Routes for the state of one task instance."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field

from holdfast import commands as c
from holdfast.errors import InvalidInput
from holdfast.portable.retention import expires_at as default_expiry
from holdfast.server.public import entry
from holdfast.server.public.caller import CallerDep
from holdfast.server.public.error_docs import BODY, problems
from holdfast.server.public.model import Answer, Body, Time
from holdfast.server.public.parameter import IfVersion, Key, TaskEntries, TaskInPath
from holdfast.server.public.route import public_router

router = public_router("Task state store", 404, 501, 502)

PATH = "/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/state-store"


class TaskStateStoreEntry(entry.StateStoreEntry):
    """One key of a task instance."""

    expires_at: datetime | None = Field(description="When it expires; null: never.")


class TaskStateStoreCollection(Answer):
    """A page of entries, ordered by key, with the total number."""

    task_state_store: list[TaskStateStoreEntry]
    total_entries: int


class TaskStateStoreBody(Body):
    """The value of a key, and when it expires."""

    value: Any = Field(description="Any JSON value except null.", examples=[{"rows": 1200}])
    expires_at: Time | Literal["default"] | None = Field(
        "default",
        description="When it expires; null: never; `default`, or omitted: after `[state_store] "
        "default_retention_days`.",
    )


@router.get(PATH)
async def list_task_state_store(
    caller: CallerDep, scope: TaskInPath, page: TaskEntries
) -> TaskStateStoreCollection:
    """List the entries of a task instance, ordered by key."""
    found = await caller.aexecute(page.of(scope))
    entries = [TaskStateStoreEntry(**entry.fields(one.entry)) for one in found.found]
    return TaskStateStoreCollection(task_state_store=entries, total_entries=found.total)


@router.get(PATH + "/{key:path}")
async def get_task_state_store(
    caller: CallerDep, scope: TaskInPath, key: Key
) -> TaskStateStoreEntry:
    """Read an entry."""
    return TaskStateStoreEntry(**await entry.read(caller, scope, key))


@router.put(PATH + "/{key:path}", responses=problems(409, *BODY))
async def set_task_state_store(
    caller: CallerDep,
    scope: TaskInPath,
    key: Key,
    body: TaskStateStoreBody,
    if_version: IfVersion = None,
) -> entry.Written:
    """Write or overwrite an entry of a registered task instance."""
    now = datetime.now(UTC)
    expires_at = body.expires_at
    if expires_at == "default":
        expires_at = default_expiry(None, caller.rules.default_retention, now)
    elif expires_at is not None and expires_at <= now:
        raise InvalidInput(
            f"expires_at of `{key}` is {expires_at.isoformat()}, which is in the past",
            hint="give a later time, null for never, or delete the key",
        )
    return await entry.write(caller, scope, key, body.value, expires_at, if_version)


@router.patch(PATH + "/{key:path}", responses=problems(409, *BODY))
async def patch_task_state_store(
    caller: CallerDep,
    scope: TaskInPath,
    key: Key,
    body: entry.StateStoreValueBody,
    if_version: IfVersion = None,
) -> entry.Written:
    """Write the value of an entry that exists. Its expiry does not change."""
    return await entry.change(caller, scope, key, body.value, if_version)


@router.delete(PATH + "/{key:path}", status_code=204, responses=problems(409))
async def delete_task_state_store(caller: CallerDep, scope: TaskInPath, key: Key) -> None:
    """Delete an entry. If there is none, nothing happens."""
    await caller.aexecute(c.Delete(scope, key, caller.writer))


@router.delete(PATH, status_code=204, responses=problems(409))
async def clear_task_state_store(
    caller: CallerDep,
    scope: TaskInPath,
    all_map_indices: Annotated[
        bool, Query(description="Delete the entries of every map index of the task in this run.")
    ] = False,
) -> None:
    """Delete every entry of a task instance."""
    await caller.aexecute(c.Clear(scope, caller.writer, all_map_indices))
