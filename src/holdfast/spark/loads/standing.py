"""Loads whose directories do not count: unfinished, abandoned, or undone by a rewind."""

from __future__ import annotations

from typing import Any, Final

from holdfast.accessor import AssetStore, run
from holdfast.actions.loads import Load, loads_of
from holdfast.errors import NotSupported
from holdfast.spark.loads import plan
from holdfast.spark.loads.naming import load_name, start_of
from holdfast.spark.loads.plan import Plan, plan_in

SUFFIX: Final = "/abandoned"
"""The names of loads that the watermark has left behind are stored as `orders/abandoned`."""


def left_out(store: AssetStore, key: str) -> set[str]:
    """Return the names of loads that readers leave out."""
    entry = store.entry(key)
    out = abandoned(store, key)
    if entry is None or not entry.staged:
        out.add(load_name(store, key, start_of(store, key)))
    return out


def abandoned(store: AssetStore, key: str) -> set[str]:
    """Return the names of loads that do not count: the watermark has left them behind."""
    known: Any = store.get(key + SUFFIX, [])
    out = set(known)
    entry = store.entry(key + plan.SUFFIX)
    if entry is not None:
        last = plan_in(entry.value, f"`{key}{plan.SUFFIX}` of {store._scope}")
        if last.start != start_of(store, key) and not _succeeded(store, key, last):
            out.add(load_name(store, key, last.start))
    for load in _remembered(store, key):
        # One that a rewind has undone may stand again, by another.
        (out.add if load.undone else out.discard)(load.record.name)
    return out


def _succeeded(store: AssetStore, key: str, last: Plan) -> bool:
    if last.watermark == store.get(key):
        return True
    try:
        history = store.history(key)
    except NotSupported:
        return True
    return any(step.previous == last.start and step.value == last.watermark for step in history)


def _remembered(store: AssetStore, key: str) -> list[Load]:
    try:
        return run(store._store.inline, loads_of(store._scope, key))
    except NotSupported:
        return []
