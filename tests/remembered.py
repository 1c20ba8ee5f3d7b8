"""Loads that are remembered: what an incremental load writes when it succeeds."""

from __future__ import annotations

from typing import Any

from holdfast.accessor import AssetStore

STARTED = "2026-01-31T05:00:00.000000Z"


def record(number: int, to: Any, **more: Any) -> dict[str, Any]:
    """The record of a load that started from a version of the watermark."""
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


def remember(store: AssetStore, to: Any, key: str = "watermark", **more: Any) -> int:
    """Load up to `to`: the watermark and the record, as one version. Returns its number."""
    history = store.history(key)
    number = history[0].version if history else 0
    mark = {"cursor": "id", "type": more.get("type", "integer"), "value": to}
    store.set_many({key: mark, f"{key}/load": record(number, to, **more)})
    return number
