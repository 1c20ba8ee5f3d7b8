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
from holdfast.value import MAX_KEY_LENGTH, is_in_place


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
    """What a rewind of a watermark means for its loads."""

    undone: list[Load]
    """Those that stand and started from the version that is put back, or from a later one."""
    revived: list[Load]
    """Those that an earlier rewind has undone, and that count as loaded again."""
    forward: bool
    """The version that is put back was itself undone by an earlier rewind."""
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
    """Return what a rewind of the watermark to a step of its history does to these loads.

    Where several versions have the value that is put back, it is as if the newest were meant: what
    was undone before stays so.
    """
    newest = history[0]
    value = target.value if target else None
    if value is None and newest.value is None:
        return Undoing([], [], False, [])  # what is absent stays so, and no version is written
    after = max(newest.version, *(load.version for load in loads), 0) + 1
    put_back = Version(after, value, newest.updated_at, newest.writer, newest.version)
    now, lineage = _lineage(history, loads), _lineage([put_back, *history], loads)
    versions = lineage.undone[0]
    then = [_is_undone(load, lineage.undone) for load in loads]
    return Undoing(
        [load for load, undone in zip(loads, then, strict=True) if undone and not load.undone],
        [load for load, undone in zip(loads, then, strict=True) if load.undone and not undone],
        any(one.start < versions.start < one.stop for one in now.undone),
        [one for one in now.others if one in versions],
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
        same = _same_before(history, step)
        if same is None and step.value is not None:
            lineage.others.append(step.version)
            step = steps.get(step.previous)
        else:
            lineage.undone.append(range(same.version if same else 0, step.version))
            step = same
    return lineage


def _same_before(history: Sequence[Version[str]], step: Version[str]) -> Version[str] | None:
    """Return the newest earlier step with the value of this one."""
    if step.value is not None and is_in_place(step.value):
        return None  # it says where the value is, and that is the same for each value
    earlier = (one for one in history if one.version < step.version)
    return next((one for one in earlier if one.value == step.value), None)
