"""Routes for entries of many task instances, or of many assets."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from msgspec.structs import asdict
from pydantic.json_schema import SkipJsonSchema

from holdfast import commands as c
from holdfast.errors import InvalidInput
from holdfast.model.presentation import of_scope
from holdfast.model.scope import AssetScope
from holdfast.server.public.asset_state import AssetStateStoreEntry
from holdfast.server.public.caller import CallerDep
from holdfast.server.public.entry import fields
from holdfast.server.public.error_docs import problems
from holdfast.server.public.model import Answer, AssetId, AssetName, Id, Index
from holdfast.server.public.parameter import AssetEntries, TaskEntries
from holdfast.server.public.route import public_router
from holdfast.server.public.task_state import TaskStateStoreEntry

router = public_router("State stores", 501, 502)


class FoundTaskEntry(TaskStateStoreEntry):
    """An entry, and whose it is."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int


class FoundTaskEntries(Answer):
    """A page of entries, ordered by task instance and key, with the total number."""

    task_state_store: list[FoundTaskEntry]
    total_entries: int


class FoundAssetEntry(AssetStateStoreEntry):
    """An entry, and whose it is."""

    asset_id: int
    name: str
    uri: str


class FoundAssetEntries(Answer):
    """A page of entries, ordered by asset and key, with the total number."""

    asset_state_store: list[FoundAssetEntry]
    total_entries: int


@router.get("/state-store/tasks")
async def list_all_task_state_store(
    caller: CallerDep,
    page: TaskEntries,
    dag_id: Annotated[
        Id | SkipJsonSchema[None], Query(description="Only entries of this DAG.")
    ] = None,
    run_id: Annotated[
        Id | SkipJsonSchema[None], Query(description="Only entries of this run.")
    ] = None,
    task_id: Annotated[
        Id | SkipJsonSchema[None], Query(description="Only entries of this task.")
    ] = None,
    map_index: Annotated[
        Index | SkipJsonSchema[None], Query(description="Only entries of this map index.")
    ] = None,
) -> FoundTaskEntries:
    """List the entries of task instances, ordered by DAG, run, task, map index and key."""
    found = await caller.aexecute(page.of(c.TaskFilter(dag_id, run_id, task_id, map_index)))
    entries = [FoundTaskEntry(**fields(one.entry), **of_scope(one.scope)) for one in found.found]
    return FoundTaskEntries(task_state_store=entries, total_entries=found.total)


@router.get("/state-store/assets", responses=problems(404))
async def list_all_asset_state_store(
    caller: CallerDep,
    page: AssetEntries,
    asset_id: Annotated[
        AssetId | SkipJsonSchema[None], Query(description="Only entries of the asset with this id.")
    ] = None,
    name: Annotated[
        AssetName | SkipJsonSchema[None],
        Query(description="Only entries of the asset with this name."),
    ] = None,
    uri: Annotated[
        AssetName | SkipJsonSchema[None],
        Query(description="Only entries of the asset with this URI."),
    ] = None,
) -> FoundAssetEntries:
    """List the entries of assets, ordered by asset and key."""
    given = [one for one in (asset_id, name, uri) if one is not None]
    if len(given) > 1:
        raise InvalidInput(
            "more than one of asset_id, name and uri is given", hint="give one of them"
        )
    where = AssetScope(asset_id, name, uri) if given else c.AssetFilter()
    found = await caller.aexecute(page.of(where))
    entries = [FoundAssetEntry(**fields(one.entry), **asdict(one.scope)) for one in found.found]
    return FoundAssetEntries(asset_state_store=entries, total_entries=found.total)
