"""Path and query parameters."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Path, Query
from pydantic.json_schema import SkipJsonSchema

from holdfast import commands as c
from holdfast.errors import InvalidInput
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import MAX_KEY_LENGTH, check_key
from holdfast.portable.identifier import MAX_ID_LENGTH, check_id
from holdfast.server.http.strictness import decoded
from holdfast.server.public.model import AssetId, Index, KeyPrefix, Time, VersionNumber

ALL = "~"
"""In place of an id: all of them, where a listing supports it."""

_ID: dict[str, Any] = {"minLength": 1, "maxLength": MAX_ID_LENGTH}
_KEY: dict[str, Any] = {"minLength": 1, "maxLength": MAX_KEY_LENGTH}


def _id(name: str, description: str, example: str) -> Any:
    """Return the dependency that reads an id from the path."""
    place = Path(alias=name, description=description, examples=[example], json_schema_extra=_ID)

    def read(given: str = place) -> str:
        return check_id(name, decoded(given, name))

    return Depends(read)


_RawKey = Annotated[
    str,
    Path(
        description="The key, percent-encoded: a slash in it is written `%2F`.",
        examples=["orders/cursor"],
        json_schema_extra=_KEY,
    ),
]


def _key(key: _RawKey) -> str:
    text = decoded(key, "key")
    check_key(text)
    return text


def _asset_key(key: _RawKey) -> str:
    if key.endswith(("/history", "/rewind")):
        raise InvalidInput(
            f"the path ends with {key[key.rindex('/') :]}, which is no part of a key",
            hint="write a slash that is part of a key as %2F",
        )
    return _key(key)


DagId = Annotated[str, _id("dag_id", "The DAG's id.", "sales")]
RunId = Annotated[
    str, _id("run_id", "The run's id, percent-encoded.", "manual__2026-01-31T12:00:00+00:00")
]
TaskId = Annotated[str, _id("task_id", "The task's id.", "load")]
PoolName = Annotated[str, _id("pool_name", "The pool's name.", "warehouse")]
Key = Annotated[str, Depends(_key)]
AssetKey = Annotated[str, Depends(_asset_key)]

MapIndex = Annotated[Index, Query(description="Index of a mapped task; -1: it is not mapped.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of items.")]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1, description="Number of items to skip.")]
IfVersion = Annotated[
    VersionNumber | SkipJsonSchema[None],
    Query(
        description="Write only if the entry has this version; otherwise the response is 409. "
        "0: only if there is no entry.",
    ),
]


def _task(dag_id: DagId, run_id: RunId, task_id: TaskId, map_index: MapIndex = -1) -> TaskScope:
    return TaskScope(dag_id, run_id, task_id, map_index)


def _asset(
    asset_id: Annotated[AssetId, Path(description="The asset's id, as in the list of assets.")],
) -> AssetScope:
    return AssetScope(asset_id)


TaskInPath = Annotated[TaskScope, Depends(_task)]
AssetInPath = Annotated[AssetScope, Depends(_asset)]


class EntryPage(NamedTuple):
    """The filters and the page of a list of entries."""

    prefix: str
    updated_since: Time | None
    limit: int
    offset: int
    expiring_before: Time | None = None

    def of(self, where: c.Where) -> c.List:
        return c.List(where, **self._asdict())


def _asset_entries(
    key_prefix: Annotated[KeyPrefix, Query(description="Only keys with this prefix.")] = "",
    updated_since: Annotated[
        Time | SkipJsonSchema[None],
        Query(description="Only entries written at this time or later."),
    ] = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> EntryPage:
    return EntryPage(key_prefix, updated_since, limit, offset)


AssetEntries = Annotated[EntryPage, Depends(_asset_entries)]


def _task_entries(
    page: AssetEntries,
    expiring_before: Annotated[
        Time | SkipJsonSchema[None], Query(description="Only entries that expire before this time.")
    ] = None,
) -> EntryPage:
    return page._replace(expiring_before=expiring_before)


TaskEntries = Annotated[EntryPage, Depends(_task_entries)]
