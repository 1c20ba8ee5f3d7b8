"""The incremental loads of an asset: which are remembered, and which a rewind has undone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast import command as c
from holdfast.accessor import Steps
from holdfast.entry import Version, Writer
from holdfast.loadrecord import RECORD_SUFFIX, LoadRecord, record_of
from holdfast.scope import AssetScope
from holdfast.value import MAX_KEY_LENGTH


class Load(NamedTuple):
    """A remembered load, and who wrote it when."""

    key: str
    """That of its watermark."""
    record: LoadRecord
    version: int
    updated_at: datetime
    writer: Writer
    undone: bool = False
    """The watermark was put back to before it: its rows are loaded again."""


class Undoing(NamedTuple):
    """What a rewind of a watermark undoes."""

    loads: list[Load]
    """Those that stand and started from the version that is put back, or from a later one."""
    others: list[int]
    """Later versions of the watermark that no remembered load has written."""


def loads_of(scope: AssetScope, key: str | None = None) -> Steps[list[Load]]:
    """Return the loads of an asset, or those of one of its watermarks, newest first."""
    if key is None:
        page = yield c.List(scope)
        names = [found.entry.key for found in page.found]
        keys = [name.removesuffix(RECORD_SUFFIX) for name in names if name.endswith(RECORD_SUFFIX)]
    else:
        keys = [key]
    loads = []
    for one in keys:
        if 0 < len(one) <= MAX_KEY_LENGTH - len(RECORD_SUFFIX):
            history = yield c.History(scope, one)
            records = yield c.History(scope, one + RECORD_SUFFIX)
            loads += _remembered(one, history, records)
    return sorted(loads, key=lambda load: load.version, reverse=True)


def undone_by(
    history: Sequence[Version[str]], loads: Sequence[Load], target: Version[str] | None
) -> Undoing:
    """Return what a rewind of the watermark to a step of its history undoes.

    Where the same value was put back before, what has been loaded since then is undone, not what
    was undone already.
    """
    value = target.value if target else None
    start = next((step.version for step in history if step.value == value), 0)
    lineage = _lineage(history, loads)
    return Undoing(
        [
            load
            for load in loads
            if _moves(load) and load.record.number >= start and not load.undone
        ],
        [version for version in lineage.others if version > start],
    )


class _Lineage(NamedTuple):
    """How the watermark came to its value."""

    undone: list[range]
    """For each time that an old value was put back, the versions from that one to this."""
    others: list[int]
    """Versions that were written neither so nor by a remembered load."""


def _remembered(
    key: str, history: Sequence[Version[str]], records: Sequence[Version[str]]
) -> list[Load]:
    found = [(record_of(step.value), step) for step in records]
    loads = [
        Load(key, record, step.version, step.updated_at, step.writer)
        for record, step in found
        if record is not None
    ]
    undone = _lineage(history, loads).undone
    return [load._replace(undone=_is_undone(load, undone)) for load in loads]


def _moves(load: Load) -> bool:
    return load.record.kind == "load"


def _is_undone(load: Load, undone: list[range]) -> bool:
    # Written before the value was put back: the number alone could be a user's invention.
    return _moves(load) and any(
        load.record.number in versions and load.version < versions.stop for versions in undone
    )


def _lineage(history: Sequence[Version[str]], loads: Sequence[Load]) -> _Lineage:
    """Follow the watermark back, from its newest version.

    A rewind leaves no other trace than a value that was there before, with no load that wrote it.
    A load and its watermark are one version; one that found the watermark high enough already has
    written an earlier one.
    """
    written = {load.record.number: load.version for load in reversed(loads) if _moves(load)}
    steps = {step.version: step for step in history}
    lineage = _Lineage([], [])
    step = history[0] if history else None
    while step is not None:
        if written.get(step.previous, 0) >= step.version:
            step = steps.get(step.previous)
            continue
        earlier = (one for one in history if one.version < step.version)
        same = next((one for one in earlier if one.value == step.value), None)
        if same is None and step.value is not None:
            lineage.others.append(step.version)
            step = steps.get(step.previous)
        else:
            lineage.undone.append(range(same.version if same else 0, step.version))
            step = same
    return lineage
