"""Routes for the state of one asset, with its history."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from holdfast import commands as c
from holdfast.errors import NotFound
from holdfast.model import presentation
from holdfast.model.entry import Version
from holdfast.model.rewind import rewind_target
from holdfast.model.value import decode_entry
from holdfast.server.public import entry
from holdfast.server.public.caller import CallerDep
from holdfast.server.public.error_docs import BODY, problems
from holdfast.server.public.model import (
    Answer,
    Body,
    Id,
    LastUpdatedBy,
    Stored,
    Time,
    VersionNumber,
)
from holdfast.server.public.parameter import AssetEntries, AssetInPath, AssetKey, IfVersion
from holdfast.server.public.route import public_router

router = public_router("Asset state store", 404, 501, 502)

PATH = "/assets/{asset_id}/state-store"


class AssetStateStoreEntry(entry.StateStoreEntry):
    """One key of an asset."""


class AssetStateStoreCollection(Answer):
    """A page of entries, ordered by key, with the total number."""

    asset_state_store: list[AssetStateStoreEntry]
    total_entries: int


class AssetStateStoreVersion(Stored):
    """One step in the history of a key."""

    version: int
    deleted: bool = Field(description="This version deleted the key, so it has no value.")
    updated_at: datetime
    last_updated_by: LastUpdatedBy


class AssetStateStoreHistory(Answer):
    """The last versions of a key, newest first."""

    versions: list[AssetStateStoreVersion]
    total_entries: int


class RewindBody(Body):
    """The target of a rewind: one of `version`, `run_id` and `at`."""

    version: VersionNumber | None = Field(None, description="Restore this version.")
    run_id: Id | None = Field(
        None, description="Restore the value from before this run first wrote."
    )
    at: Time | None = Field(None, description="Restore the value at this time.")
    dry_run: bool = Field(False, description="Only report what would be restored.")


class Rewound(Answer):
    """The result of a rewind."""

    restored: AssetStateStoreVersion | None = Field(
        description="The restored version, stored as a new version. Null, or a version that "
        "deleted the key: the key did not exist then, and is deleted."
    )
    dry_run: bool


def of_version(step: Version[str]) -> AssetStateStoreVersion:
    return AssetStateStoreVersion(**presentation.of_version(step, decode_entry))


@router.get(PATH)
async def list_asset_state_store(
    caller: CallerDep, scope: AssetInPath, page: AssetEntries
) -> AssetStateStoreCollection:
    """List the entries of an asset, ordered by key."""
    found = await caller.aexecute(page.of(scope))
    entries = [AssetStateStoreEntry(**entry.fields(one.entry)) for one in found.found]
    return AssetStateStoreCollection(asset_state_store=entries, total_entries=found.total)


# Registered before the route of the entry itself, whose key may contain slashes.
@router.get(PATH + "/{key:path}/history")
async def get_asset_state_store_history(
    caller: CallerDep, scope: AssetInPath, key: AssetKey
) -> AssetStateStoreHistory:
    """List the last versions of a key, newest first, including deletions."""
    steps = await caller.aexecute(c.History(scope, key))
    if not steps:
        raise NotFound(
            f"`{key}` of {scope} has no history", hint="the list of entries shows the keys"
        )
    versions = [of_version(step) for step in steps]
    return AssetStateStoreHistory(versions=versions, total_entries=len(versions))


@router.post(PATH + "/{key:path}/rewind", responses=problems(409, *BODY))
async def rewind_asset_state_store(
    caller: CallerDep, scope: AssetInPath, key: AssetKey, body: RewindBody
) -> Rewound:
    """Restore an old value, as a new version."""
    target = rewind_target(body.version, body.run_id, body.at)
    step = await caller.aexecute(c.Rewind(scope, key, target, caller.writer, body.dry_run))
    return Rewound(restored=None if step is None else of_version(step), dry_run=body.dry_run)


@router.get(PATH + "/{key:path}")
async def get_asset_state_store(
    caller: CallerDep, scope: AssetInPath, key: AssetKey
) -> AssetStateStoreEntry:
    """Read an entry."""
    return AssetStateStoreEntry(**await entry.read(caller, scope, key))


@router.put(PATH + "/{key:path}", responses=problems(409, *BODY))
async def set_asset_state_store(
    caller: CallerDep,
    scope: AssetInPath,
    key: AssetKey,
    body: entry.StateStoreValueBody,
    if_version: IfVersion = None,
) -> entry.Written:
    """Write or overwrite an entry of an asset."""
    return await entry.write(caller, scope, key, body.value, None, if_version)


@router.patch(PATH + "/{key:path}", responses=problems(409, *BODY))
async def patch_asset_state_store(
    caller: CallerDep,
    scope: AssetInPath,
    key: AssetKey,
    body: entry.StateStoreValueBody,
    if_version: IfVersion = None,
) -> entry.Written:
    """Write the value of an entry that exists."""
    return await entry.change(caller, scope, key, body.value, if_version)


@router.delete(PATH + "/{key:path}", status_code=204, responses=problems(409))
async def delete_asset_state_store(caller: CallerDep, scope: AssetInPath, key: AssetKey) -> None:
    """Delete an entry; its history stays. If there is none, nothing happens."""
    await caller.aexecute(c.Delete(scope, key, caller.writer))


@router.delete(PATH, status_code=204, responses=problems(409))
async def clear_asset_state_store(caller: CallerDep, scope: AssetInPath) -> None:
    """Delete every entry of an asset; their history stays."""
    await caller.aexecute(c.Clear(scope, caller.writer))
