"""The requests about objects: values that workers keep in storage of their own.

The store holds references, and the server never touches an object. An object is reserved before it
is written, so that nobody deletes it meanwhile, and so that it is found if its entry is never
written. One that no entry, step of a history or staged write names any more is in the purge queue,
from which whoever has the storage's credentials takes it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from holdfast.commands.base import Category, Command, ScopeCommand, check_count
from holdfast.errors import InvalidInput
from holdfast.model.entry import Writer
from holdfast.model.role import Role
from holdfast.model.scope import AssetScope, StoreScope
from holdfast.model.value import check_key, check_reference
from holdfast.portable.identifier import check_id

RESERVED_FOR: Final = timedelta(days=1)
"""How long a writer has from reserving an object to naming it."""
LONGEST_LEASE: Final = timedelta(minutes=5)
MOST_PURGES: Final = 10_000
"""Objects in one command."""
MAX_REASON_LENGTH: Final = 2000
"""Characters that are kept of why an object could not be deleted."""
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=10), timedelta(hours=1)

Reserved: TypeAlias = tuple[tuple[str, str, str], ...]
"""Keys, each with the JSON text of the reference that its entry is going to have, and a name of the
reservation's own. The text is empty where the next value of a key takes the place of the one
before: then nothing at that place is purged meanwhile."""


def _by_name(scope: StoreScope) -> StoreScope:
    """Return the scope as the queue knows it: assets by name or URI, whatever id comes with it.

    Raise InvalidInput for an asset that has neither.
    """
    if not isinstance(scope, AssetScope):
        return scope
    if not (scope.name or scope.uri):
        raise InvalidInput(f"{scope} is known by its id alone", hint="give its name or its URI")
    return AssetScope(name=scope.name, uri=scope.uri)


class ReserveObjects(ScopeCommand[None], frozen=True):
    """Objects are about to be written for these keys of a scope. Refused as the write itself would
    be for its writer and scope; ObjectBusy while one of them is being deleted."""

    category = Category.WRITES_ENTRIES

    objects: Reserved
    writer: Writer

    def __post_init__(self) -> None:
        check_count(f"objects of {self.scope}", len(self.objects), MOST_PURGES)
        for key, value, reservation in self.objects:
            check_key(key, self.scope)
            check_id("a reservation", reservation, 64)
            if value:
                check_reference(f"`{key}` of {self.scope}", value)


class ReleaseObjects(ScopeCommand[None], frozen=True):
    """The write for which they were reserved was refused: what nobody names may go."""

    category = Category.WRITES_ENTRIES
    fenced = False

    objects: Reserved
    writer: Writer

    def __post_init__(self) -> None:
        check_count(f"objects of {self.scope}", len(self.objects), MOST_PURGES)


class QueueObjects(Command[None], frozen=True):
    """Objects, each with whose it is, its key and the JSON text of its reference, of which somebody
    thinks that nothing names them: they are deleted unless something does."""

    role = Role.EDITOR
    for_workers = True

    objects: tuple[tuple[StoreScope, str, str], ...]

    def __post_init__(self) -> None:
        check_count("objects", len(self.objects), MOST_PURGES)
        for scope, key, value in self.objects:
            check_key(key, scope)
            check_reference(f"`{key}` of {scope}", value)
        objects = tuple((_by_name(scope), key, value) for scope, key, value in self.objects)
        force_setattr(self, "objects", objects)


class Purge(msgspec.Struct, frozen=True):
    """An object to delete, which no entry names any more."""

    id: int
    scope: StoreScope
    key: str
    value: str
    """The JSON text of its reference; empty where it was reserved by its key alone."""
    tries: int


class Taken(msgspec.Struct, frozen=True):
    """What is to be deleted, and how many were due, some of which may have had names."""

    purges: tuple[Purge, ...]
    due: int
    barrier: int | None = None
    """The id of a purge that stands for the whole part: nothing in it is named or reserved, nor can
    it be until this purge is finished or the lease is over."""


class Part(msgspec.Struct, frozen=True):
    """A part of the queue: all of it, or what one scope has, or one task in a run."""

    scope: StoreScope | None = None
    all_map_indices: bool = False

    def __post_init__(self) -> None:
        if self.scope is not None:
            force_setattr(self, "scope", _by_name(self.scope))


class TakePurges(Command[Taken], frozen=True):
    """Up to `limit` objects that are due, for the taker to delete within the lease. What has been
    named again meanwhile leaves the queue."""

    category = Category.PURGES
    fenced = False
    touches_entries = True
    sized = True

    limit: int
    lease: timedelta
    taker: str
    """A name of its own, which nobody else knows."""
    part: Part = Part()
    whole: bool = False
    """Ask for a barrier as well, to delete all objects of the part at once."""
    retry: bool = False
    """Take also what could not be deleted before, whose pause is not over."""
    max_size: int | None = None
    """Characters of references: the answer ends with the object that exceeds them, and says that
    as many were due as were asked for."""

    @property
    def subject(self) -> StoreScope | None:
        return self.part.scope

    def __post_init__(self) -> None:
        if self.whole and self.part.scope is None:
            raise InvalidInput("a barrier is asked for without a scope", hint="name the scope")
        if not 1 <= self.limit <= MOST_PURGES:
            raise InvalidInput(f"{self.limit} purges at once", hint=f"from 1 to {MOST_PURGES:,}")
        if not timedelta(0) < self.lease <= LONGEST_LEASE:
            raise InvalidInput(f"a lease of {self.lease}", hint=f"{LONGEST_LEASE} at most")
        check_id("the taker", self.taker, 64)

    @property
    def repeatable(self) -> bool:
        return False


class FinishPurges(Command[None], frozen=True):
    """These objects are gone; those could not be deleted, and why: they are tried again later.
    What the taker has no more, as its lease was over, is left alone."""

    category = Category.PURGES
    fenced = False

    taker: str
    gone: tuple[int, ...]
    failed: tuple[tuple[int, str], ...] = ()

    def __post_init__(self) -> None:
        for objects in (self.gone, self.failed):
            check_count("objects", len(objects), MOST_PURGES)
        failed = tuple((id, reason[:MAX_REASON_LENGTH]) for id, reason in self.failed)
        force_setattr(self, "failed", failed)


class PurgeQueue(msgspec.Struct, frozen=True):
    """How many objects wait to be deleted, how many of them have failed before, how many are
    reserved, and what the last failure was."""

    waiting: int
    failing: int
    reserved: int
    error: str = ""


class CountPurges(Command[PurgeQueue], frozen=True):
    """The length of the purge queue, or of a part of it."""

    category = Category.READS

    part: Part = Part()


def pause_after(tries: int) -> timedelta:
    """How long an object that could not be deleted that often is left alone."""
    pause: timedelta = _FIRST_PAUSE * 2 ** min(tries, 20)
    return min(pause, _LONGEST_PAUSE)
