"""Exponential backoff."""

from __future__ import annotations


class Backoff:
    """Pauses between attempts, in seconds, growing from the first to the longest."""

    def __init__(self, first: float, longest: float, factor: float = 2.0) -> None:
        self._first = min(first, longest)
        self._longest = longest
        self._factor = factor
        self.reset()

    def reset(self) -> None:
        """Begin with the first pause again."""
        self._next = self._first

    def pause(self) -> float:
        """Return the next pause."""
        pause, self._next = self._next, min(self._next * self._factor, self._longest)
        return pause
