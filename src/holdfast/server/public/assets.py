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
    dags: list[str] = Field(description="The DAGs that declare it.")
    declared_by_hand: bool = Field(description="It is never deactivated.")
    is_active: bool = Field(description="Its state may be written.")
    inactive_since: datetime | None = Field(
        description="When the last DAG that declared it stopped doing so."
    )


class AssetCollection(Answer):
    """Some of the assets, ordered by name, and how many there are in all."""

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
    number: int = Field(description="Counts the events of its asset, from 1.")
    timestamp: datetime
    extra: Any = Field(description="What the task or watcher told with it: a JSON object.")
    source_dag_id: str | None = Field(description="Of the task; null where a watcher saw it.")
    source_run_id: str | None
    source_task_id: str | None
    source_map_index: int | None


class AssetEventCollection(Answer):
    """Some of the events, newest first, and how many there are in all."""

    asset_events: list[AssetEvent]
    total_entries: int


class AssetLoad(Answer):
    """One incremental load."""

    key: str = Field(description="The key of its watermark.")
    name: str = Field(description="The name of the directories that it wrote.")
    number: int = Field(description="Its number: later loads have higher ones. 0 of a backfill.")
    kind: str = Field(description="`load`, or `backfill`, which did not move the watermark.")
    undone: bool | None = Field(
        description="Whether it no longer counts: the watermark was rewound to before it, or it is "
        "a backfill that was repeated or deleted. Null if the server cannot tell: the watermark is "
        "in the workers' storage, or was set by hand and its history is gone."
    )
    cursor: str = Field(description="The column by which rows are new.")
    type: str = Field(description="The type of that column.")
    from_: str | int | None = Field(
        serialization_alias="from", description="Where its range begins; null: it is open."
    )
    to: str | int | None = Field(description="Where its range ends; null: it is open.")
    rows: int | None = Field(description="How many rows it wrote; null where nobody counted them.")
    beyond: int = Field(description="How many rows were beyond the end, for a later load.")
    started_at: str
    seconds: float
    directories: list[str] = Field(description="Where it wrote.")
    checks: dict[str, int] = Field(description="For each check, how many rows failed it.")
    quarantined: int = Field(description="How many rows were set aside.")
    quarantine: str | None = Field(description="The directory of those rows.")
    updated_at: datetime = Field(description="When it took effect.")
    last_updated_by: LastUpdatedBy


class AssetLoadCollection(Answer):
    """Some of the loads, newest first, and how many there are in all."""

    loads: list[AssetLoad]
    total_entries: int


@router.get("/assets")
async def list_assets(
    caller: CallerDep,
    name: Annotated[
        AssetName | SkipJsonSchema[None], Query(description="Only the one of this name.")
    ] = None,
    uri: Annotated[
        AssetName | SkipJsonSchema[None], Query(description="Only the one of this URI.")
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
    """Declare an asset by hand: it is known from now on, and never deactivated. Name and URI
    default to each other; an asset that is known already stays as it is."""
    if body.name is None and body.uri is None:
        raise InvalidInput("it is not said which asset", hint="give name, uri, or both")
    return of_asset(await caller.aexecute(c.DeclareAsset(body.name, body.uri)))


# Registered before the route of one asset, which would take `events` for an id.
@router.get("/assets/events", responses=problems(404))
async def list_asset_events(
    caller: CallerDep,
    asset_id: Annotated[
        AssetId | SkipJsonSchema[None], Query(description="Only of this asset.")
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
        Query(description="Only those of the watermark under this key."),
    ] = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> AssetLoadCollection:
    """List the incremental loads of an asset, newest first. They are remembered as far back as the
    history of its entries goes."""
    loads = await caller.follow(loads_of(scope, key))
    shown = [of_load(one) for one in loads[offset : offset + limit]]
    return AssetLoadCollection(loads=shown, total_entries=len(loads))


@router.delete("/assets/{asset_id}", status_code=204, responses=problems(404, 502))
async def delete_asset(caller: CallerDep, scope: AssetInPath) -> None:
    """Forget an asset with its entries, their history and its events. A DAG that declares it makes
    it known again, empty, when its file is next read. For admins."""
    await caller.aexecute(c.DeleteAsset(scope))


def of_asset(asset: AssetInfo) -> Asset:
    return Asset(
        id=asset.asset_id,
        name=asset.name,
        uri=asset.uri,
        dags=list(asset.dags),
        declared_by_hand=asset.by_hand,
        is_active=asset.orphaned_at is None,
        inactive_since=asset.orphaned_at,
    )


def of_load(load: Load) -> AssetLoad:
    return AssetLoad(
        key=load.key,
        **msgspec.structs.asdict(load.record),
        undone=load.is_void,
        updated_at=load.updated_at,
        last_updated_by=LastUpdatedBy(**of_writer(load.writer)),
    )


def of_event(event: Event) -> AssetEvent:
    source = event.source
    return AssetEvent(
        asset_id=event.asset.asset_id or 0,
        name=event.asset.name or "",
        uri=event.asset.uri or "",
        number=event.number,
        timestamp=event.at,
        extra=msgspec.json.decode(event.extra),
        source_dag_id=source.dag_id if source else None,
        source_run_id=source.run_id if source else None,
        source_task_id=source.task_id if source else None,
        source_map_index=source.map_index if source else None,
    )
