"""The base of all commands: a request is a value, typed by its answer; whatever answers one is a Store."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime
from itertools import accumulate
from typing import Final, Generic, TypeVar

import msgspec
from msgspec.structs import force_setattr

from holdfast.errors import InvalidInput
from holdfast.model.scope import StoreScope
from holdfast.model.value import check_key

A = TypeVar("A")


MOST_WRITES: Final = 20_000
"""Entries that are written together. Other writers wait meanwhile."""


def check_count(what: str, count: int, most: int, hint: str = "send them in parts") -> None:
    """Raise InvalidInput where a list in a command has more than `most` items."""
    if count > most:
        raise InvalidInput(f"{count:,} {what} in one command", hint=f"{most:,} at most; {hint}")


class Command(msgspec.Struct, Generic[A], frozen=True, tag=True, tag_field="command"):
    """A request whose answer is of type `A`."""

    @property
    def repeatable(self) -> bool:
        """Safe to send again when the answer was lost: the outcome is the same."""
        return True

    @property
    def lengthy(self) -> bool:
        """It may take longer than a store is usually waited for, the more so the more it does."""
        return False


class KeyCommand(Command[A], Generic[A], frozen=True):
    """A request about one key of one scope."""

    scope: StoreScope
    key: str

    def __post_init__(self) -> None:
        force_setattr(self, "key", check_key(self.key, self.scope))


def count_within(sizes: Iterable[int], max_size: int | None) -> int:
    """Count items up to the one with which their sizes exceed `max_size`, or all of them."""
    sums = list(accumulate(sizes))
    return len(sums) if max_size is None else min(len(sums), bisect_right(sums, max_size) + 1)


class Now(Command[datetime], frozen=True):
    """The store's own clock."""
