"""Commands about objects: values that workers offload to storage of their own.

The store holds references, and the server never accesses an object. An object is reserved before it
is written, so that it is not deleted meanwhile, and so that it is found if its entry is never
written. An object that no entry, version or staged write refers to any more is in the purge queue,
from which a process with the storage's credentials takes it.
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
from holdfast.portable.identifier import check_id, one_line

RESERVED_FOR: Final = timedelta(days=1)
"""How long a writer has from reserving an object to writing the reference."""
LONGEST_PURGE_LEASE: Final = timedelta(minutes=5)
MOST_PURGES: Final = 10_000
"""Maximum number of objects in one command."""
MAX_REASON_LENGTH: Final = 2000
"""Characters that are stored of the reason why an object could not be deleted."""
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=10), timedelta(hours=1)

Reserved: TypeAlias = tuple[tuple[str, str, str], ...]
"""Keys, each with the JSON text of the reference that its entry will have, and the name of the
reservation. The text is empty where the next value of a key overwrites the previous object: then
nothing at that reference is purged meanwhile."""


def _by_name(scope: StoreScope) -> StoreScope:
    """Return the scope as the queue knows it: assets by name or URI, without an id.

    Raise InvalidInput for an asset that has neither.
    """
    if not isinstance(scope, AssetScope):
        return scope
    if not (scope.name or scope.uri):
        raise InvalidInput(f"{scope} is identified by its id only", hint="give its name or its URI")
    return AssetScope(name=scope.name, uri=scope.uri)


class ReserveObjects(ScopeCommand[None], frozen=True):
    """Reserve objects that are about to be written for these keys of a scope. Rejected as the write
    itself would be for its writer and scope; ObjectBusy while one of them is being deleted."""

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
    """Release reserved objects after their write was rejected: unreferenced ones may be deleted."""

    category = Category.WRITES_ENTRIES
    fenced = False

    objects: Reserved
    writer: Writer

    def __post_init__(self) -> None:
        check_count(f"objects of {self.scope}", len(self.objects), MOST_PURGES)


class QueueObjects(Command[None], frozen=True):
    """Queue objects (scope, key, JSON text of the reference) that the caller believes to be
    unreferenced: they are deleted unless something refers to them."""

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
    """An object to delete, which no entry refers to any more."""

    id: int
    scope: StoreScope
    key: str
    value: str
    """The JSON text of its reference; empty where it was reserved by its key alone."""
    tries: int


class Taken(msgspec.Struct, frozen=True):
    """The objects to delete, and how many were due, some of which may be referenced again."""

    purges: tuple[Purge, ...]
    due: int
    barrier: int | None = None
    """The id of a purge that stands for the whole part: nothing in it is referenced or reserved,
    nor can it be until this purge is finished or the lease expires."""


class Part(msgspec.Struct, frozen=True):
    """A part of the queue: all of it, that of one scope, or that of one task in a run."""

    scope: StoreScope | None = None
    all_map_indices: bool = False

    def __post_init__(self) -> None:
        if self.scope is not None:
            force_setattr(self, "scope", _by_name(self.scope))


class TakePurges(Command[Taken], frozen=True):
    """Claim up to `limit` objects that are due, which the taker is to delete within the lease.
    Objects that have been referenced again meanwhile leave the queue."""

    category = Category.PURGES
    fenced = False
    touches_entries = True
    sized = True
    repeatable = False

    limit: int
    lease: timedelta
    taker: str
    """The taker's own secret name."""
    part: Part = Part()
    whole: bool = False
    """Also request a barrier, to delete all objects of the part at once."""
    retry: bool = False
    """Include objects that could not be deleted before and whose backoff is not over."""
    max_size: int | None = None
    """Limit in characters of references: the answer ends with the object that exceeds it, and
    reports as many due as were requested."""

    @property
    def subject(self) -> StoreScope | None:
        return self.part.scope

    def __post_init__(self) -> None:
        if self.whole and self.part.scope is None:
            raise InvalidInput("a barrier needs a scope", hint="name the scope")
        if not 1 <= self.limit <= MOST_PURGES:
            raise InvalidInput(f"{self.limit} purges at once", hint=f"from 1 to {MOST_PURGES:,}")
        if not timedelta(0) < self.lease <= LONGEST_PURGE_LEASE:
            raise InvalidInput(f"a lease of {self.lease}", hint=f"{LONGEST_PURGE_LEASE} at most")
        check_id("the taker", self.taker, 64)


class FinishPurges(Command[None], frozen=True):
    """Report the objects that were deleted, and those that could not be, with the reason: they are
    retried later. Objects that somebody else has taken since are ignored."""

    category = Category.PURGES
    fenced = False

    taker: str
    gone: tuple[int, ...]
    failed: tuple[tuple[int, str], ...] = ()

    def __post_init__(self) -> None:
        for objects in (self.gone, self.failed):
            check_count("objects", len(objects), MOST_PURGES)
        failed = tuple((id, one_line(reason)[:MAX_REASON_LENGTH]) for id, reason in self.failed)
        force_setattr(self, "failed", failed)


class PurgeQueue(msgspec.Struct, frozen=True):
    """The number of objects that wait to be deleted, that have failed before and that are reserved,
    and the last failure."""

    waiting: int
    failing: int
    reserved: int
    error: str = ""


class CountPurges(Command[PurgeQueue], frozen=True):
    """Return the length of the purge queue, or of a part of it."""

    category = Category.READS

    part: Part = Part()


def pause_after(tries: int) -> timedelta:
    """Return the backoff for an object that could not be deleted `tries` times."""
    pause: timedelta = _FIRST_PAUSE * 2 ** min(tries, 20)
    return min(pause, _LONGEST_PAUSE)
