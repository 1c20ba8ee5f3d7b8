"""Writing of one entry by people: within the size limit, and conditional on its version."""

from __future__ import annotations

import asyncio
from datetime import datetime

from pydantic import Field

from holdfast import commands as c
from holdfast.accessor.base import located
from holdfast.errors import InvalidInput, InvalidType, VersionConflict
from holdfast.model.scope import StoreScope
from holdfast.model.value import JsonValue, encode, fits, too_large
from holdfast.server.public.caller import Caller
from holdfast.server.public.entry import absent
from holdfast.server.public.model import Answer
from holdfast.stores.errors import conflict

TRIES = 10
"""How often a change of the value alone is retried because of concurrent writes."""


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
