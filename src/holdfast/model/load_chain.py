"""Which incremental loads an asset consists of.

A watermark says so itself: it has the number of the load that wrote it, and the numbers of loads
before it that do not count. So a rewind, or a copy to another store, carries this along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

FIELD: Final = "load"
"""The part of a watermark's value that is its chain."""


NO_TRY: Final = "0"
"""The name of no try: nothing that was saved of the load counts where there are tries."""


class Chain(msgspec.Struct, frozen=True, omit_defaults=True):
    """The loads that count, up to the newest of them."""

    number: int
    """The number of the newest load."""
    out: tuple[tuple[int, int], ...] = ()
    """Ranges of numbers, first to last, of loads that failed for good or were undone."""
    tries: dict[str, str] = {}
    """Where directories cannot be renamed: which try of a load counts, if it is not the first."""
    saved: tuple[str, ...] = ()
    """The digests of how loads were saved; empty for those that their authors wrote."""
    guessed: bool = False
    """Which loads count is not known: the watermark was set by hand, and its history is gone."""

    def counts(self, number: int) -> bool:
        """Tell whether the load of that number counts."""
        return 0 <= number <= self.number and not any(
            first <= number <= last for first, last in self.out
        )


NO_LOADS: Final = Chain(-1)


def following(
    before: Chain | None, number: int, tried: str | None = None, saved: Sequence[str] = ()
) -> Chain:
    """Return the chain in which the load of that number follows `before`."""
    before = before or NO_LOADS
    out, tries = before.out, before.tries
    if number > before.number + 1:
        out = (*out, (before.number + 1, number - 1))
    if tried is not None and tried != "1":
        tries = {**tries, str(number): tried}
    all_saved = tuple(dict.fromkeys([*before.saved, *saved]))
    return Chain(number, out, tries, all_saved, before.guessed)


def chain_in(value: Any) -> Chain | None:
    """Read the chain in a watermark's value; None where no load has written it."""
    try:
        return msgspec.convert(value[FIELD], Chain) if isinstance(value, dict) else None
    except (KeyError, msgspec.ValidationError):
        return None


def standing(values: Sequence[Any], newest: int | None = None) -> Chain | None:
    """Return the loads that count, given the values that a watermark had, newest first.

    A value without a chain was set by hand: the loads before it still count; if the watermark had
    that value before, a rewind has put it back, and those count that did then. Where no earlier
    value has a chain, those count from which the next load started; where no value has one, as
    after a copy to another store, it is a guess: those up to the number `newest`.
    """
    at = 0
    while at < len(values):
        value = values[at]
        if value is None:
            return None
        if (found := chain_in(value)) is not None:
            return found
        same = (other for other in range(at + 1, len(values)) if values[other] == value)
        at = next(same, at + 1)
    for value in reversed(values):
        if (found := chain_in(value)) is not None:
            return msgspec.structs.replace(found, number=found.number - 1)
    return None if newest is None or not values else Chain(newest, guessed=True)
