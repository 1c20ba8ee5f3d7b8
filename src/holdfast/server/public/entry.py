"""Reading of one entry of a task instance or an asset, and its fields in a response."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from holdfast import commands as c
from holdfast.errors import NotFound
from holdfast.model.entry import Entry
from holdfast.model.presentation import of_entry, of_value
from holdfast.model.scope import StoreScope
from holdfast.model.value import decode_entry
from holdfast.server.public.caller import Caller
from holdfast.server.public.model import Body, LastUpdatedBy, Stored


class StateStoreEntry(Stored):
    """One key."""

    key: str
    version: int | None = Field(
        description="Increases with every write; null if the configured backend has no versions."
    )
    updated_at: datetime | None = Field(
        description="When it was written; null if the configured backend does not record it."
    )
    last_updated_by: LastUpdatedBy | None = Field(
        description="The last writer; null if the configured backend does not record it."
    )


class StateStoreValueBody(Body):
    """The value of a key."""

    value: Any = Field(description="Any JSON value except null.", examples=["2026-01-31"])


def fields(entry: Entry[str]) -> dict[str, Any]:
    """Return the fields of an entry; an asset's model omits its expiry."""
    return of_entry(entry, decode_entry)


async def read(caller: Caller, scope: StoreScope, key: str) -> dict[str, Any]:
    """Return the fields of the entry; a backend that has only values returns those alone. Raise
    NotFound where there is no entry, and UnreadableValue where the value is not JSON."""
    if caller.supports(c.GetEntry):
        entry = await caller.aexecute(c.GetEntry(scope, key))
        if entry is not None:
            decode_entry(entry.value, f"`{key}` of {scope}")
            return fields(entry)
    elif (text := await caller.aexecute(c.Get(scope, key))) is not None:
        decode_entry(text, f"`{key}` of {scope}")
        unknown = ("version", "updated_at", "expires_at", "last_updated_by")
        return {**of_value(text, decode_entry), "key": key, **dict.fromkeys(unknown)}
    raise absent(scope, key)


def absent(scope: StoreScope, key: str) -> NotFound:
    return NotFound(f"{scope} has no entry `{key}`", hint="the list of entries shows the keys")
