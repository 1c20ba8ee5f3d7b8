"""The base classes of all commands.

A request is a value, typed by its answer; whatever answers one is a Store. Each class declares what
it does; who may send it, and how it is executed, is derived from that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import Enum, auto
from itertools import accumulate
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec
from msgspec.structs import force_setattr

from holdfast.errors import InvalidInput
from holdfast.model.entry import TaskWriter, Writer
from holdfast.model.role import Role
from holdfast.model.scope import StoreScope
from holdfast.model.value import check_key

A = TypeVar("A")


MOST_WRITES: Final = 20_000
"""Maximum number of entries written in one command. Other writers wait meanwhile."""


def check_count(what: str, count: int, most: int, hint: str = "send them in parts") -> None:
    """Raise InvalidInput where a list in a command has more than `most` items."""
    if count > most:
        raise InvalidInput(f"{count:,} {what} in one command", hint=f"{most:,} at most; {hint}")


class Category(Enum):
    """What a command does, as far as permissions depend on it."""

    READS = auto()
    READS_ENTRIES = auto()
    """Reads entries of one scope."""
    READS_RUN = auto()
    """Reads one run, its results and its events."""
    WRITES_ENTRIES = auto()
    """Writes entries of one scope, or reserves the objects that they refer to."""
    WRITES_RESULTS = auto()
    """Writes results of an attempt."""
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
    """The lowest role of a person who may send it, where its category does not decide."""
    for_workers: ClassVar[bool] = False
    """Whether workers send it, for the attempts and watchers that they run."""
    fenced: ClassVar[bool] = True
    """Whether a store rejects it from an attempt that is not live, where it writes."""
    touches_entries: ClassVar[bool] = False
    """Whether it reads or changes entries, which may be in a custom backend."""
    paged: ClassVar[bool] = False
    """Whether it has a `limit`, without which its answer may have any number of items."""
    sized: ClassVar[bool] = False
    """Whether it has a `max_size`, without which its answer may be of any size."""
    measured: ClassVar[Any] = None
    """Where its answer is a tuple that `max_size` cuts off: getter of the text that counts."""
    identity: ClassVar[Any] = None
    """Where its answer is a tuple and it has an `offset`: getter of what identifies an item."""
    goes_on: ClassVar[tuple[str, Any] | None] = None
    """Where it has no `offset`: the field that continues after an item, and getter of its value."""

    @property
    def reads(self) -> bool:
        """Whether it changes nothing, so that it may be sent any number of times."""
        return self.category in _READING

    @property
    def repeatable(self) -> bool:
        """Whether it is safe to send again when the answer was lost: the outcome is the same."""
        return True

    @property
    def lengthy(self) -> bool:
        """Whether it may exceed the usual timeout of a store, the more so the more work it does."""
        return False

    @property
    def subject(self) -> StoreScope | None:
        """The one scope that the command is about, if there is one."""
        return None

    @property
    def reader(self) -> TaskWriter | None:
        """The attempt whose staged writes are visible to the command."""
        return None

    @property
    def writer(self) -> Writer | None:
        """The writer of the command, if it writes."""
        return None

    def texts(self) -> Iterator[tuple[StoreScope, str, str]]:
        """Yield the JSON texts that the command writes to entries: scope, key and text."""
        yield from ()


class ScopeCommand(Command[A], Generic[A], frozen=True):
    """A command about one scope."""

    scope: StoreScope

    @property
    def subject(self) -> StoreScope:
        return self.scope


class KeyCommand(ScopeCommand[A], Generic[A], frozen=True):
    """A command about one key of one scope."""

    key: str

    def __post_init__(self) -> None:
        force_setattr(self, "key", check_key(self.key, self.scope))


class RunCommand(Command[A], Generic[A], frozen=True):
    """A command about one run."""

    dag_id: str
    run_id: str


def count_within(sizes: Iterable[int], max_size: int | None) -> int:
    """Count items up to the one with which their sizes exceed `max_size`, or all of them."""
    sums = list(accumulate(sizes))
    return len(sums) if max_size is None else min(len(sums), bisect_right(sums, max_size) + 1)


class Now(Command[datetime], frozen=True):
    """Return the time of the store's own clock."""

    category = Category.READS
