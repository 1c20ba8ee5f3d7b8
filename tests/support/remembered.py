"""Records of loads, as an incremental load writes them on success."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.accessor.asset_store import AssetStore
from holdfast.model.load_chain import following
from holdfast.spark.loads.load_history import highest_number, loads_that_count

STARTED = "2026-01-31T05:00:00.000000Z"


def record(number: int, to: Any, **more: Any) -> dict[str, Any]:
    """Return the record of the load of that number."""
    return {
        "holdfast": "load",
        "name": f"load=orders.watermark.{number:012}",
        "number": number,
        "kind": "load",
        "cursor": "id",
        "type": "integer",
        "from": None,
        "to": to,
        "rows": 10,
        "started_at": STARTED,
        "seconds": 1.5,
        **more,
    }


def next_number(store: AssetStore, key: str = "watermark") -> int:
    """Return the number of the next load."""
    return highest_number(store, key, store.entry(key), with_undone=True) + 1


def remember(store: AssetStore, to: Any, key: str = "watermark", **more: Any) -> int:
    """Load up to `to`: the watermark and the record, as one version. Returns its number."""
    number = next_number(store, key)
    chain = following(loads_that_count(store, key, store.entry(key)), number)
    mark = {"cursor": "id", "type": more.get("type", "integer"), "value": to}
    mark["load"] = msgspec.to_builtins(chain)
    store.set_many({key: mark, f"{key}/load": record(number, to, **more)})
    return number
