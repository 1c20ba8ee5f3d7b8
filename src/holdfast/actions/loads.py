"""The incremental loads of an asset, and those that a rewind undoes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from holdfast import commands as c
from holdfast.commands.paging import each_page
from holdfast.model.entry import Version, Writer
from holdfast.model.load_chain import NO_LOADS, Chain, chain_in, standing
from holdfast.model.load_record import BACKFILLS, RECORD_SUFFIX, LoadRecord, record_of
from holdfast.model.scope import AssetScope
from holdfast.model.value import MAX_KEY_LENGTH, decode_entry, is_reference
from holdfast.store import Steps


class Load(NamedTuple):
    """A recorded load, with its writer and time."""

    key: str
    """The key of its watermark."""
    record: LoadRecord
    version: int
    updated_at: datetime
    writer: Writer
    undone: bool | None = False
    """The watermark was rewound to before it: its rows are loaded again. None: it is unknown, as
    the watermark is offloaded to the workers' storage, or was set by hand and its history is gone.
    """
    superseded: bool = False
    """It is a backfill that was repeated, or whose entry is deleted. Its directory may be that of
    the one that counts."""

    @property
    def is_void(self) -> bool | None:
        """Whether it no longer counts; None: it is unknown."""
        return self.superseded or self.undone


class Undoing(NamedTuple):
    """The effect of a rewind of a watermark on its loads."""

    undone: list[Load]
    """Loads that count now, and not after it."""
    revived: list[Load]
    """Loads that an earlier rewind has undone, and that count after it."""
    forgotten: int
    """How many more are undone, of which there is no record any more."""


def loads_of(scope: AssetScope, key: str | None = None) -> Steps[list[Load]]:
    """Return the loads of an asset, or those of one of its watermarks, newest first."""
    if key is None:
        names: list[str] = []
        yield from each_page(
            c.List(scope), lambda page: names.extend(found.entry.key for found in page.found)
        )
        keys = [name.removesuffix(RECORD_SUFFIX) for name in names if name.endswith(RECORD_SUFFIX)]
    else:
        keys = [key]
    loads: list[Load] = []
    for one in keys:
        if 0 < len(one) <= MAX_KEY_LENGTH - len(RECORD_SUFFIX):
            loads += yield from _remembered(scope, one)
    return sorted(loads, key=lambda load: load.version, reverse=True)


def undone_by(
    scope: AssetScope, key: str, loads: Sequence[Load], target: Version[str] | None
) -> Steps[Undoing | None]:
    """Return the effect on its loads of a rewind of a watermark to a version of its history.

    None: it is unknown, as with `Load.undone`.
    """
    newest = _newest(loads)
    entry = yield c.GetEntry(scope, key)
    now = yield from _counting(scope, key, entry.value if entry else None, newest)
    then = yield from _counting(scope, key, target.value if target else None, newest)
    if now is None or then is None:
        return None
    numbers = filter(now.counts, range(now.number + 1))
    gone = {one for one in numbers if not then.counts(one)}
    undone = [load for load in loads if _moved(load) and load.record.number in gone]
    revived = [load for load in loads if load.undone and then.counts(load.record.number)]
    return Undoing(undone, revived, len(gone - {load.record.number for load in undone}))


def _remembered(scope: AssetScope, key: str) -> Steps[list[Load]]:
    """Return the loads of one watermark."""
    steps = yield c.History(scope, key + RECORD_SUFFIX)
    found = [(record_of(step.value), step) for step in steps]
    loads = [
        Load(key, record, step.version, step.updated_at, step.writer)
        for record, step in found
        if record is not None
    ]
    newest: set[tuple[str, ...]] = set()
    for at, load in enumerate(loads):
        name = load.record.name
        if not _moved(load):
            saved = (name, *(one.removeprefix("file:") for one in load.record.directories))
            counts = saved not in newest and (yield from _is_kept(scope, key, name))
            loads[at] = load._replace(superseded=not counts)
            newest.add(saved)
    if not any(map(_moved, loads)):
        return loads
    entry = yield c.GetEntry(scope, key)
    chain = yield from _counting(scope, key, entry.value if entry else None, _newest(loads))
    return [
        load._replace(undone=None if chain is None else not chain.counts(load.record.number))
        if _moved(load)
        else load
        for load in loads
    ]


def _is_kept(scope: AssetScope, key: str, name: str) -> Steps[bool]:
    """Return whether the store has an entry for a backfill."""
    entry = yield c.GetEntry(scope, key + BACKFILLS + name.removeprefix("load="))
    return entry is not None


def _moved(load: Load) -> bool:
    """Return whether the load moved the watermark."""
    return load.record.kind == "load"


def _newest(loads: Sequence[Load]) -> int | None:
    return max((load.record.number for load in loads if _moved(load)), default=None)


def _counting(
    scope: AssetScope, key: str, text: str | None, newest: int | None
) -> Steps[Chain | None]:
    """Return the loads that count if this is the watermark's value; None: it is unknown."""
    if text is None:
        return NO_LOADS
    where = f"`{key}` of {scope}"
    if (found := chain_in(_decoded(text, where))) is not None:
        return None if found.guessed else found
    history = yield c.History(scope, key)
    texts = [text, *(step.value for step in history)]
    if any(one is not None and is_reference(one) for one in texts):
        return None
    found = standing([_decoded(one, where) for one in texts], newest) or NO_LOADS
    return None if found.guessed else found


def _decoded(text: str | None, where: str) -> Any:
    return None if text is None else decode_entry(text, where)
