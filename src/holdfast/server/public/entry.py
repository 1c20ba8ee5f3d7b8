"""Reading and writing of one entry by people: within the size limit, and by its version."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from pydantic import Field

from holdfast import commands as c
from holdfast.accessor.base import located
from holdfast.errors import InvalidInput, InvalidType, NotFound, VersionConflict
from holdfast.model.entry import Entry
from holdfast.model.presentation import of_entry, of_value
from holdfast.model.scope import StoreScope
from holdfast.model.value import JsonValue, decode_entry, encode, fits, too_large
from holdfast.server.public.caller import Caller
from holdfast.server.public.model import Answer, Body, LastUpdatedBy, Stored
from holdfast.stores.refusals import conflict

TRIES = 10
"""How often a change of the value alone is retried because of concurrent writes."""


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


class Written(Answer):
    """The result of a write."""

    key: str
    version: int = Field(description="The entry's new version, for `if_version`.")
    expires_at: datetime | None = Field(description="When it expires; null: never.")


def as_text(caller: Caller, scope: StoreScope, key: str, value: JsonValue) -> str:
    """Return the value as the store stores it. Raise ValueTooLarge where it is over the limit."""
    where = f"`{key}` of {scope}"
    try:
        text = encode(value)
    except (InvalidInput, InvalidType) as error:
        raise located(error, where) from None
    limit = caller.rules.max_value_bytes
    if not fits(text, limit):
        raise too_large(text, limit, where)
    return text


async def write(
    caller: Caller,
    scope: StoreScope,
    key: str,
    value: JsonValue,
    expires_at: datetime | None,
    if_version: int | None,
) -> Written:
    """Write or overwrite an entry."""
    text = await asyncio.to_thread(as_text, caller, scope, key, value)
    command = c.Set(scope, key, text, caller.writer, expires_at, if_version)
    return Written(key=key, version=await caller.aexecute(command), expires_at=expires_at)


async def change(
    caller: Caller, scope: StoreScope, key: str, value: JsonValue, if_version: int | None
) -> Written:
    """Write the value of an entry that exists, and keep its expiry. Raise NotFound where there is
    none, and VersionConflict where it has another version than `if_version`."""
    text = await asyncio.to_thread(as_text, caller, scope, key, value)
    for tried in range(1, TRIES + 1):
        entry = await caller.aexecute(c.GetEntry(scope, key))
        if entry is None:
            raise absent(scope, key)
        if if_version not in (None, entry.version):
            assert if_version is not None
            raise conflict(scope, key, if_version, entry.version)
        command = c.Set(scope, key, text, caller.writer, entry.expires_at, entry.version)
        try:
            version = await caller.aexecute(command)
        except VersionConflict:
            if if_version is not None or tried == TRIES:
                raise
        else:
            return Written(key=key, version=version, expires_at=entry.expires_at)
    raise AssertionError("the last try returns or raises")
