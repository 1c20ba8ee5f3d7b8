"""The chain of an asset's loads, read from its store."""

from __future__ import annotations

from typing import Any, Final

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import NotSupported
from holdfast.model.entry import Entry
from holdfast.model.load_chain import Chain, chain_in, standing
from holdfast.model.load_record import RECORD_SUFFIX, record_in

PLAN_SUFFIX: Final = "/plan"
"""The plan of the watermark `orders` is stored as `orders/plan`."""


def loads_that_count(store: AssetStore, key: str, entry: Entry[Any] | None) -> Chain | None:
    """Return the loads that count, for a watermark's entry; None if there are none."""
    if entry is None:
        return None
    if (found := chain_in(entry.value)) is not None:
        return found
    return standing([entry.value, *_values(store, key)[1:]], _recorded(store, key))


def highest_number(
    store: AssetStore, key: str, entry: Entry[Any] | None, *, with_undone: bool
) -> int:
    """Return the highest number of a load that has succeeded; -1 if none has.

    Loads that a rewind has undone may be only in the watermark's history.
    """
    values = [entry.value] if entry else []
    if with_undone:
        values += _values(store, key)
    numbers = [found.number for found in map(chain_in, values) if found]
    recorded = _recorded(store, key)
    return max([-1, *numbers, *([] if recorded is None else [recorded])])


def _recorded(store: AssetStore, key: str) -> int | None:
    """Return the number of the last load that is known to have succeeded from other entries than
    the chain."""
    record = record_in(store.inline().get(key + RECORD_SUFFIX))
    plan = store.get(key + PLAN_SUFFIX)
    numbers = [record.number] if record is not None and record.kind == "load" else []
    if isinstance(plan, dict) and plan.get("done"):
        numbers.append(plan["number"])
    return max(numbers, default=None)


def _values(store: AssetStore, key: str) -> list[Any]:
    """Return the values that an entry had, newest first; None where it was absent."""
    try:
        history = store.history(key)
    except NotSupported:  # the values are gone, not the versions
        history = store.inline().history(key)
    return [step.value for step in history]
