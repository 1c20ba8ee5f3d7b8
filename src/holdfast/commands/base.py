"""The base of all commands.

A request is a value, typed by its answer; whatever answers one is a Store. Each class says itself
what it does: who may ask it, and how it is carried out, is derived from that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import Enum, auto
from itertools import accumulate
from typing import ClassVar, Final, Generic, TypeVar

import msgspec
from msgspec.structs import force_setattr

from holdfast.errors import InvalidInput
from holdfast.model.entry import TaskWriter, Writer
from holdfast.model.role import Role
from holdfast.model.scope import StoreScope
from holdfast.model.value import check_key

A = TypeVar("A")


MOST_WRITES: Final = 20_000
"""Entries that are written together. Other writers wait meanwhile."""


def check_count(what: str, count: int, most: int, hint: str = "send them in parts") -> None:
    """Raise InvalidInput where a list in a command has more than `most` items."""
    if count > most:
        raise InvalidInput(f"{count:,} {what} in one command", hint=f"{most:,} at most; {hint}")


class Category(Enum):
    """What a command does, as far as it matters for who may ask it."""

    READS = auto()
    READS_ENTRIES = auto()
    """Of one scope."""
    READS_RUN = auto()
    """One run, its results and its events."""
    WRITES_ENTRIES = auto()
    """Of one scope; or reserves the objects that they refer to."""
    WRITES_RESULTS = auto()
    """Of an attempt."""
    PURGES = auto()
    """Takes objects from the purge queue."""
    LOADS = auto()
    """Is part of a bulk load."""
    OTHER = auto()


_READING: Final = {Category.READS, Category.READS_ENTRIES, Category.READS_RUN}


class Command(msgspec.Struct, Generic[A], frozen=True, tag=True, tag_field="command"):
    """A request whose answer is of type `A`."""

    category: ClassVar[Category] = Category.OTHER
    role: ClassVar[Role] = Role.ADMIN
    """The least role of a person who may ask it, where its category does not say."""
    for_workers: ClassVar[bool] = False
    """Whether a worker asks it, for the attempts and watchers that it runs."""
    fenced: ClassVar[bool] = True
    """Whether a store refuses it from an attempt that is not live, where it writes."""
    touches_entries: ClassVar[bool] = False
    """Whether it reads or changes entries, which may be in a custom backend."""
    paged: ClassVar[bool] = False
    """Whether it has a `limit`, without which its answer may have any number of items."""
    sized: ClassVar[bool] = False
    """Whether it has a `max_size`, without which its answer may be of any size."""

    @property
    def reads(self) -> bool:
        """It changes nothing, so it may be asked as often as anyone likes."""
        return self.category in _READING

    @property
    def repeatable(self) -> bool:
        """Safe to send again when the answer was lost: the outcome is the same."""
        return True

    @property
    def lengthy(self) -> bool:
        """It may take longer than a store is usually waited for, the more so the more it does."""
        return False

    @property
    def subject(self) -> StoreScope | None:
        """The one scope that it is about, if it is."""
        return None

    @property
    def reader(self) -> TaskWriter | None:
        """The attempt whose staged writes are seen."""
        return None

    @property
    def writer(self) -> Writer | None:
        """Who writes."""
        return None

    def texts(self) -> Iterator[tuple[StoreScope, str, str]]:
        """Yield the JSON texts that it gives to entries: scope, key and text."""
        yield from ()


class ScopeCommand(Command[A], Generic[A], frozen=True):
    """A request about one scope."""

    scope: StoreScope

    @property
    def subject(self) -> StoreScope:
        return self.scope


class KeyCommand(ScopeCommand[A], Generic[A], frozen=True):
    """A request about one key of one scope."""

    key: str

    def __post_init__(self) -> None:
        force_setattr(self, "key", check_key(self.key, self.scope))


def count_within(sizes: Iterable[int], max_size: int | None) -> int:
    """Count items up to the one with which their sizes exceed `max_size`, or all of them."""
    sums = list(accumulate(sizes))
    return len(sums) if max_size is None else min(len(sums), bisect_right(sums, max_size) + 1)


class Now(Command[datetime], frozen=True):
    """The store's own clock."""

    category = Category.READS
