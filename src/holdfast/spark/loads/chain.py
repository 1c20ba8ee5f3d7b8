"""Which loads an asset consists of.

A watermark says so itself: it names the load that wrote it, and the numbers that were left behind
on the way there. So whoever puts an old watermark back, or moves it to another store, puts back
or moves what counts with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast.accessor import AssetStore
from holdfast.entry import Entry, Version
from holdfast.errors import NotSupported
from holdfast.loadrecord import RECORD_SUFFIX
from holdfast.spark.loads.plan import Plan


class Chain(msgspec.Struct, frozen=True, omit_defaults=True):
    """The loads up to one of them."""

    number: int
    """Of the newest load. Later loads have higher numbers."""
    version: int
    """That of the watermark's entry from which it started."""
    after: int | None = None
    """The number of the load before it."""
    out: tuple[tuple[int, int], ...] = ()
    """Numbers, each from a first to a last, of loads that failed for good or were undone."""
    tries: dict[str, str] = {}
    """Where directories cannot be renamed: which try of a load counts, if it is not the first."""


class Link(NamedTuple):
    """The place of a load in the chain of its asset."""

    version: int
    """That of the watermark's entry from which it starts; 0: there is none."""
    number: int
    before: Chain | None
    """The loads that it follows; None: there are none."""
    out: tuple[tuple[int, int], ...]

    def chain(self, tried: str | None) -> Chain:
        """Return the chain with this load in it."""
        tries = self.before.tries if self.before else {}
        if tried is not None and tried != "1":
            tries = {**tries, str(self.number): tried}
        after = self.before.number if self.before else None
        return Chain(self.number, self.version, after, self.out, tries)


def next_link(store: AssetStore, key: str, plan: Plan | None) -> Link:
    """Return the place of the load that follows the watermark as it stands.

    `plan` is the last one that was stored: if it is of this load, so is its number.
    """
    entry, history = store.entry(key), _history(store, key)
    before = _chain(entry, history)
    version = entry.version if entry else 0
    numbers = [found.number for found in map(chain_in, [entry, *history]) if found]
    # Undone loads are in no chain, but their directories may be there.
    record = store._inline().get(key + RECORD_SUFFIX)
    if isinstance(record, dict) and record.get("kind") == "load":
        numbers.append(record["number"])
    number = max([version, *(number + 1 for number in numbers)])
    if entry is None and history:
        number = max(number, history[0].version)
    if plan is not None:
        is_its_own = not plan.done and plan.version == version and plan.start >= number
        number = plan.start if is_its_own else max(number, plan.start + 1)
    if before is None:
        return Link(version, number, None, ((0, number - 1),) if number else ())
    if number == before.number + 1 or (number == version and _is_next(before, history)):
        return Link(version, number, before, before.out)
    return Link(version, number, before, (*before.out, (before.number + 1, number - 1)))


def _is_next(chain: Chain, history: list[Version[Any]]) -> bool:
    """Tell whether the newest version is the one that this chain's load has written here, on top
    of the one before it: numbers are versions then, and no other load has one in between."""
    if chain.number != chain.version or not history or history[0].previous != chain.version:
        return False
    before = chain_in(history[1]) if len(history) > 1 else None
    return chain.after == (before.number if before else None)


def standing(store: AssetStore, key: str) -> Chain | None:
    """Return the loads that count; None: there are none."""
    return _chain(store.entry(key), _history(store, key))


def chain_in(found: Entry[Any] | Version[Any] | None) -> Chain | None:
    """Read the chain in a watermark; None where no load has written it."""
    value = found.value if found else None
    try:
        return msgspec.convert(value["load"], Chain) if isinstance(value, dict) else None
    except (KeyError, msgspec.ValidationError):
        return None


def _chain(entry: Entry[Any] | None, history: list[Version[Any]]) -> Chain | None:
    """Return the chain of the watermark; of one that was set by hand, that of the one before."""
    if entry is None:
        return None
    if (found := chain_in(entry)) is not None:
        return found
    for step in history:
        if step.value is None:
            return None
        if (found := chain_in(step)) is not None:
            return found
    return Chain(entry.version - 1, 0)


def _history(store: AssetStore, key: str) -> list[Version[Any]]:
    try:
        return store.history(key)
    except NotSupported:  # the values are gone, not the versions
        return store._inline().history(key)
