"""Loads whose directories do not count: unfinished, abandoned, or undone by a rewind."""

from __future__ import annotations

from typing import Any, Final

from holdfast.accessor import AssetStore, run
from holdfast.actions.loads import loads_of
from holdfast.errors import NotSupported
from holdfast.spark.loads import plan
from holdfast.spark.loads.naming import load_name, start_of
from holdfast.spark.loads.plan import Plan, plan_in

SUFFIX: Final = "/abandoned"
"""The names of loads that never count any more are stored as `orders/abandoned`."""


def left_out(store: AssetStore, key: str) -> set[str]:
    """Return the names of loads that readers leave out."""
    entry = store.entry(key)
    out = abandoned(store, key)
    if entry is None or not entry.staged:
        out.add(load_name(store, key, start_of(store, key)))
    return out


def abandoned(store: AssetStore, key: str) -> set[str]:
    """Return the names of loads that will never count: the watermark has left them behind."""
    known: Any = store.get(key + SUFFIX, [])
    names = set(known)
    entry = store.entry(key + plan.SUFFIX)
    if entry is None:
        return names
    last = plan_in(entry.value, f"`{key}{plan.SUFFIX}` of {store._scope}")
    if last.watermark == store.get(key):
        return names  # the watermark is where the last load has put it
    if last.start != start_of(store, key) and not _succeeded(store, key, last):
        names.add(load_name(store, key, last.start))
    return names | _undone(store, key)


def _succeeded(store: AssetStore, key: str, last: Plan) -> bool:
    try:
        history = store.history(key)
    except NotSupported:
        return True
    return any(step.previous == last.start and step.value == last.watermark for step in history)


def _undone(store: AssetStore, key: str) -> set[str]:
    try:
        loads = run(store._store.inline, loads_of(store._scope, key))
    except NotSupported:
        return set()
    return {load.record.name for load in loads if load.undone}
