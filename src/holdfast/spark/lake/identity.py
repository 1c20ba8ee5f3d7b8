"""Identities of writes to lake tables, which their commits carry."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput, VersionConflict
from holdfast.spark.loads.naming import application

SEQUENCE_SUFFIX: Final = "/sequence"
"""The name of the sequence of the watermark `orders` is stored as `orders/sequence`."""


def sequence_of(store: AssetStore, key: str) -> str:
    """Return the name of the sequence of loads of an asset's watermark. It is made once, with a
    random part, so that the loads of another store have another one."""
    at = key + SEQUENCE_SUFFIX
    if store.get(at) is None:
        made: dict[str, Any] = {"name": f"{application(store, key)}.{uuid4().hex}"}
        with suppress(VersionConflict):  # another load has made it meanwhile
            store.set(at, made, if_version=0)
    found: Any = store.get(at)
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise InvalidInput(
            f"`{at}` of {store.binding.scope} is {str(found)[:60]}, which was not written by an "
            "incremental load",
            hint="restore its first value, or use another key= for the load",
        )
    name: str = found["name"]
    return name
