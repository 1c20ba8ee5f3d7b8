"""The chain of incremental loads that an asset consists of.

A watermark contains it: the number of the load that wrote it, and the numbers of earlier loads that
do not count. So a rewind, or a copy to another store, carries the chain along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

FIELD: Final = "load"
"""The field of a watermark's value that holds its chain."""


NO_TRY: Final = "0"
"""The name of no try: nothing that the load saved counts where there are tries."""


class Chain(msgspec.Struct, frozen=True, omit_defaults=True):
    """The loads that count, up to the newest of them."""

    number: int
    """The number of the newest load."""
    out: tuple[tuple[int, int], ...] = ()
    """Ranges of numbers, first to last, of loads that failed for good or were undone."""
    tries: dict[str, str] = {}
    """Where directories cannot be renamed: the try of a load that counts, unless it is the first.
    """
    saved: tuple[str, ...] = ()
    """Digests of how the loads were saved; empty for loads that their authors wrote themselves."""
    guessed: bool = False
    """It is unknown which loads count: the watermark was set by hand, and its history is gone."""

    def counts(self, number: int) -> bool:
        """Return whether the load of that number counts."""
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
    """Return the chain in a watermark's value; None where no load has written it."""
    try:
        return msgspec.convert(value[FIELD], Chain) if isinstance(value, dict) else None
    except (KeyError, msgspec.ValidationError):
        return None


def standing(values: Sequence[Any], newest: int | None = None) -> Chain | None:
    """Return the loads that count, given the values of a watermark, newest first.

    A value without a chain was set by hand: the loads before it still count. If the watermark had
    that value before, a rewind has restored it, and the loads that counted then count again. Where
    no earlier value has a chain, the loads count from which the next load started; where no value
    has one, as after a copy to another store, the loads up to the number `newest` count, as a
    guess.
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
