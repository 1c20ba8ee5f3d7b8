"""Counters and histograms of a service, which it reports with its signs of life."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

import msgspec

MOST_SERIES: Final = 5_000
"""Maximum number of series of a family; further ones are counted as of `OTHER`."""
OTHER: Final = "(other)"
_SEPARATOR: Final = "\t"
"""Between the values of labels, none of which may have control characters."""


class Family(NamedTuple):
    """A metric with labels, the first of which is the one with many values."""

    name: str
    description: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    """The upper bounds of a histogram's buckets; empty for a counter."""


class Figures(msgspec.Struct):
    """The values of each series, by name of the family and values of its labels.

    A counter has one value; a histogram the counts of its buckets, of what exceeds them, and the
    sum.
    """

    series: dict[str, dict[str, list[float]]] = {}

    def begin(self, family: Family, *labels: str) -> None:
        """Add a counter with the value 0, so that its first increase can be seen."""
        self._values(family.name, labels, 1)

    def count(self, family: Family, *labels: str) -> None:
        self._values(family.name, labels, 1)[0] += 1

    def observe(self, family: Family, value: float, *labels: str) -> None:
        values = self._values(family.name, labels, len(family.buckets) + 2)
        values[bisect_left(family.buckets, value)] += 1
        values[-1] += value

    def add(self, other: Figures) -> None:
        """Add those of another service. Series of other buckets, of another version, are left
        out."""
        for name, found in other.series.items():
            for key, values in found.items():
                own = self._values(name, tuple(key.split(_SEPARATOR)), len(values))
                if len(own) == len(values):
                    own[:] = [one + more for one, more in zip(own, values, strict=True)]

    def of(self, family: Family) -> list[tuple[tuple[str, ...], list[float]]]:
        """Return the labels and values of each series of a family."""
        found = self.series.get(family.name, {})
        size = len(family.buckets) + 2 if family.buckets else 1
        return [
            (tuple(key.split(_SEPARATOR)) if family.labels else (), values)
            for key, values in sorted(found.items())
            if len(values) == size
        ]

    def _values(self, name: str, labels: tuple[str, ...], size: int) -> list[float]:
        found = self.series.setdefault(name, {})
        key = _SEPARATOR.join(labels)
        if key not in found and len(found) >= MOST_SERIES:
            key = _SEPARATOR.join((OTHER, *labels[1:]))
        return found.setdefault(key, [0] * size)
