"""Routes for the assets that DAGs name, their events and their loads."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from fastapi import Query
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from holdfast import commands as c
from holdfast.actions.loads import Load, loads_of
from holdfast.errors import InvalidInput, UnknownAsset
from holdfast.model import run_presentation
from holdfast.model.entry import AssetInfo
from holdfast.model.presentation import of_writer
from holdfast.model.run import AssetEvent as Event
from holdfast.model.scope import AssetScope
from holdfast.server.public.caller import CallerDep
from holdfast.server.public.error_docs import BODY, problems
from holdfast.server.public.model import (
    Answer,
    AssetId,
    AssetName,
    Body,
    LastUpdatedBy,
    WatermarkKey,
)
from holdfast.server.public.parameter import AssetInPath, Limit, Offset
from holdfast.server.public.route import public_router

router = public_router("Assets")


class Asset(Answer):
    """An asset: a dataset that DAGs name."""

    id: int
    name: str
    uri: str
    dags: list[str] = Field(description="The DAGs that declare the asset.")
    declared_by_hand: bool = Field(
        description="Whether it was declared by hand, so that it is never deactivated."
    )
    is_active: bool = Field(description="Whether its state may be written.")
    inactive_since: datetime | None = Field(
        description="When the last DAG stopped declaring the asset."
    )


class AssetCollection(Answer):
    """A page of assets, ordered by name, with the total number."""

    assets: list[Asset]
    total_entries: int


class AssetBody(Body):
    """An asset's name, its URI, or both."""

    name: AssetName | None = Field(None, examples=["orders"])
    uri: AssetName | None = Field(None, examples=["s3://lake/orders"])


class AssetEvent(Answer):
    """One change of an asset."""

    asset_id: int
    name: str
    uri: str
    number: int = Field(description="The number of the event, counted for each asset from 1.")
    timestamp: datetime
    extra: Any = Field(
        description="Data that the task or watcher reported with the event: a JSON object."
    )
    source_dag_id: str | None = Field(
        description="The DAG of the task; null if a watcher reported the event."
    )
    source_run_id: str | None
    source_task_id: str | None
    source_map_index: int | None


class AssetEventCollection(Answer):
    """A page of events, newest first, with the total number."""

    asset_events: list[AssetEvent]
    total_entries: int


class AssetLoad(Answer):
    """One incremental load."""

    key: str = Field(description="The key of the load's watermark.")
    name: str = Field(description="The name of the directories that the load wrote.")
    number: int = Field(
        description="The load's number: later loads have higher ones. 0 for a backfill."
    )
    kind: str = Field(description="`load`, or `backfill`, which did not move the watermark.")
    undone: bool | None = Field(
        description="Whether it no longer counts: the watermark was rewound to before it, or it is "
        "a backfill that was repeated or deleted. Null if the server cannot tell: the watermark is "
        "in the workers' storage, or was set by hand and its history is gone."
    )
    cursor: str = Field(description="The column that determines which rows are new.")
    type: str = Field(description="The type of that column.")
    from_: str | int | None = Field(
        serialization_alias="from", description="The lower bound of the range; null: unbounded."
    )
    to: str | int | None = Field(description="The upper bound of the range; null: unbounded.")
    rows: int | None = Field(
        description="The number of rows written; null if they were not counted."
    )
    beyond: int = Field(
        description="The number of rows beyond the upper bound, left for a later load."
    )
    started_at: str
    seconds: float
    directories: list[str] = Field(description="The directories that it wrote.")
    checks: dict[str, int] = Field(description="The number of rows that failed each check.")
    quarantined: int = Field(description="The number of quarantined rows.")
    quarantine: str | None = Field(description="The directory of the quarantined rows.")
    updated_at: datetime = Field(description="When the load took effect.")
    last_updated_by: LastUpdatedBy


class AssetLoadCollection(Answer):
    """A page of loads, newest first, with the total number."""

    loads: list[AssetLoad]
    total_entries: int


@router.get("/assets")
async def list_assets(
    caller: CallerDep,
    name: Annotated[
        AssetName | SkipJsonSchema[None], Query(description="Only the asset with this name.")
    ] = None,
    uri: Annotated[
        AssetName | SkipJsonSchema[None], Query(description="Only the asset with this URI.")
    ] = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> AssetCollection:
    """List assets, ordered by name."""
    if name is None and uri is None:
        listing = c.ListAssets(limit, offset)
        assets = [of_asset(one) for one in await caller.aexecute(listing)]
        total = await caller.aexecute(c.Count(listing))
        return AssetCollection(assets=assets, total_entries=total)
    try:
        found = await caller.aexecute(c.GetAsset(AssetScope(name=name, uri=uri)))
    except UnknownAsset:
        return AssetCollection(assets=[], total_entries=0)
    matches = [of_asset(found)] if uri in (None, found.uri) else []
    return AssetCollection(assets=matches[offset : offset + limit], total_entries=len(matches))


@router.post("/assets", responses=problems(*BODY))
async def declare_asset(caller: CallerDep, body: AssetBody) -> Asset:
    """Declare an asset by hand, so that it is never deactivated. Name and URI default to each
    other; an asset that exists already is not changed."""
    if body.name is None and body.uri is None:
        raise InvalidInput("neither name nor uri is given", hint="give name, uri, or both")
    return of_asset(await caller.aexecute(c.DeclareAsset(body.name, body.uri)))


# Registered before the route of one asset, which would take `events` for an id.
@router.get("/assets/events", responses=problems(404))
async def list_asset_events(
    caller: CallerDep,
    asset_id: Annotated[
        AssetId | SkipJsonSchema[None], Query(description="Only events of this asset.")
    ] = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> AssetEventCollection:
    """List the changes of assets, newest first."""
    scope = None if asset_id is None else AssetScope(asset_id)
    listing = c.ListAssetEvents(scope, limit, offset)
    events = [of_event(one) for one in await caller.aexecute(listing)]
    total = await caller.aexecute(c.Count(listing))
    return AssetEventCollection(asset_events=events, total_entries=total)


@router.get("/assets/{asset_id}", responses=problems(404))
async def get_asset(caller: CallerDep, scope: AssetInPath) -> Asset:
    """Read an asset."""
    return of_asset(await caller.aexecute(c.GetAsset(scope)))


@router.get("/assets/{asset_id}/loads", responses=problems(404, 501, 502))
async def list_asset_loads(
    caller: CallerDep,
    scope: AssetInPath,
    key: Annotated[
        WatermarkKey | SkipJsonSchema[None],
        Query(description="Only loads of the watermark under this key."),
    ] = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> AssetLoadCollection:
    """List the incremental loads of an asset, newest first. Loads are recorded as far back as the
    history of its entries goes."""
    loads = await caller.follow(loads_of(scope, key))
    shown = [of_load(one) for one in loads[offset : offset + limit]]
    return AssetLoadCollection(loads=shown, total_entries=len(loads))


@router.delete("/assets/{asset_id}", status_code=204, responses=problems(404, 502))
async def delete_asset(caller: CallerDep, scope: AssetInPath) -> None:
    """Delete an asset with its entries, their history and its events. A DAG that declares the
    asset registers it again, empty, when its file is next read. For admins."""
    await caller.aexecute(c.DeleteAsset(scope))


def of_asset(asset: AssetInfo) -> Asset:
    return Asset(**run_presentation.of_asset(asset))


def of_load(load: Load) -> AssetLoad:
    return AssetLoad(
        key=load.key,
        **msgspec.structs.asdict(load.record),
        undone=load.is_void,
        updated_at=load.updated_at,
        last_updated_by=LastUpdatedBy(**of_writer(load.writer)),
    )


def of_event(event: Event) -> AssetEvent:
    return AssetEvent(**run_presentation.of_event(event, msgspec.json.decode))
