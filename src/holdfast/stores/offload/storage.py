"""Storage of offloaded values: content-addressed objects, or a third party's hooks."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from holdfast import commands as c
from holdfast import flow
from holdfast.commands import Part, Purge
from holdfast.errors import BackendFailed, HoldfastError, UnknownAsset, UnknownTaskInstance
from holdfast.flow import Call, in_thread
from holdfast.model.scope import AssetScope, StoreScope
from holdfast.model.value import (
    as_reference,
    decode,
    encode,
    fits,
    is_in_place,
    reference_in,
    too_large_to_offload,
)
from holdfast.portable.identifier import one_line
from holdfast.stores.backend.base import BaseStoreBackend
from holdfast.stores.offload.hook_names import WorkerHooks
from holdfast.stores.offload.objects.backend import ObjectStoreBackend

A = TypeVar("A")
log = logging.getLogger("holdfast")

_TOGETHER = 200
_ANOTHERS = "it was written by another worker-side backend than the one configured here"

Steps: TypeAlias = flow.Steps["c.Command[Any] | Call", A]
"""Commands for the inner store and calls of the backend, in sequence."""


@dataclass(frozen=True)
class Parcel:
    """A value to be offloaded, as JSON in UTF-8."""

    scope: StoreScope
    key: str
    content: bytes
    reference: str
    """The reference; empty if only the backend can determine it."""

    def reserved(self, reservation: str) -> tuple[str, str, str]:
        """Return the key, reference and reservation for the command that reserves the object."""
        return self.key, as_reference(self.reference) if self.reference else "", reservation


class Storage(ABC):
    """Interface of a backend as the offloading store uses it."""

    name: str
    in_place: bool
    """Whether the next value of a key overwrites its object."""
    clears: bool = False
    """Whether all objects of a scope can be deleted at once."""

    @abstractmethod
    def parcel(self, scope: StoreScope, key: str, content: bytes) -> Parcel | None:
        """Return the value, ready to be written; None if it stays inline in the entry."""

    @abstractmethod
    def put(self, parcels: Sequence[Parcel]) -> Steps[list[str]]:
        """Write the objects and return their references."""

    @abstractmethod
    def fetch(self, wanted: Sequence[tuple[StoreScope, str, str]]) -> Steps[list[str]]:
        """Return the JSON texts behind the references of these scopes and keys."""

    @abstractmethod
    def remove(self, purges: Sequence[Purge], seconds: float) -> Steps[dict[int, str]]:
        """Delete the objects until the time is up; return the ids of those that were tried, each
        with its error, or with an empty string if the object is gone."""

    def clear(self, part: Part) -> Steps[bool]:
        """Delete every object of a part, none of which is named or reserved. Return False if that
        is not supported; raise BackendFailed if it fails."""
        return False
        yield


def storage_for(backend: BaseStoreBackend, max_bytes: int) -> Storage:
    """Return the storage for this backend, with values of at most so many bytes."""
    if isinstance(backend, ObjectStoreBackend):
        return ObjectStorage(backend)  # whose own settings have the limit
    return HookStorage(backend, max_bytes)


class ObjectStorage(Storage):
    """Stores every value as its own object, named by its content: nothing is ever overwritten."""

    in_place = False

    def __init__(self, backend: ObjectStoreBackend) -> None:
        self._backend = backend
        self.name = type(backend).__name__

    def parcel(self, scope: StoreScope, key: str, content: bytes) -> Parcel | None:
        reference = self._backend.reference_for(scope, key, content)
        return None if reference is None else Parcel(scope, key, content, reference)

    def put(self, parcels: Sequence[Parcel]) -> Steps[list[str]]:
        yield _each(self._put, parcels)
        return [parcel.reference for parcel in parcels]

    def _put(self, parcel: Parcel) -> None:
        self._backend.put(parcel.reference, parcel.scope, parcel.key, parcel.content)

    def fetch(self, wanted: Sequence[tuple[StoreScope, str, str]]) -> Steps[list[str]]:
        for scope, key, reference in wanted:
            # Any client that may write entries can write any reference.
            if not self._backend.is_reference_of(reference, scope, key):
                raise BackendFailed(
                    f"{one_line(reference)} is not an object of `{key}` of {scope}",
                    hint="another [workers] state_backend wrote it, or the reference is forged: "
                    "configure the backend that wrote it, or set the key again",
                )
        contents = yield _each(self._backend.fetch, [reference for _, _, reference in wanted])
        # Release each one as soon as it is decoded: they may be large.
        contents.reverse()
        return [contents.pop().decode() for _ in wanted]

    def remove(self, purges: Sequence[Purge], seconds: float) -> Steps[dict[int, str]]:
        until = time.monotonic() + seconds
        tried: dict[int, str] = {}
        references: dict[int, str] = {}
        for purge in purges:
            reference = reference_in(purge.value) or ""
            if not reference or is_in_place(purge.value):
                tried[purge.id] = _ANOTHERS
                continue
            try:
                if self._backend.is_reference_of(reference, purge.scope, purge.key):
                    references[purge.id] = reference
                else:
                    shown = one_line(reference)
                    log.warning("%s is not an object of `%s` of %s", shown, purge.key, purge.scope)
                    tried[purge.id] = ""
            except BackendFailed as error:
                tried[purge.id] = f"{error.message}; {error.hint}"
        ids = list(references)
        for first in range(0, len(ids), _TOGETHER):
            if time.monotonic() > until:
                break
            some = {id: references[id] for id in ids[first : first + _TOGETHER]}
            failed = yield in_thread(partial(self._backend.remove, [*some.values()]))
            tried |= {id: failed.get(reference, "") for id, reference in some.items()}
        return tried


def _each(work: Callable[[Any], Any], items: Sequence[Any]) -> Call:
    """Return a call that does the work for each item; its async variant does so in threads.

    obstore's own async calls are not used: its threads take the interpreter's lock after the
    result is there, and a process that exits at that moment is aborted.
    """

    async def in_threads() -> list[Any]:
        # Await all calls even if one fails, so that none goes on unobserved; raise the first error.
        calls = (asyncio.to_thread(work, item) for item in items)
        done = await asyncio.gather(*calls, return_exceptions=True)
        for one in done:
            if isinstance(one, BaseException):
                raise one
        return done

    return Call(lambda: list(map(work, items)), in_threads)


@contextmanager
def _reported(what: str, hint: str) -> Iterator[None]:
    """Raise BackendFailed for what a hook raises; Holdfast's own errors pass through."""
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        raise BackendFailed(f"{what}: {type(error).__name__}: {error}", hint=hint) from error


class HookStorage(Storage):
    """Stores values with a third party's hooks. The reference depends on scope and key alone, so a
    new value overwrites the one before."""

    in_place = True

    def __init__(self, backend: BaseStoreBackend, max_bytes: int) -> None:
        self._hooks = WorkerHooks(backend)
        self._max_bytes = max_bytes
        self.name = self._hooks.name
        self.clears = self._hooks.clears
        self._seen: dict[tuple[StoreScope, str], str] = {}

    def parcel(self, scope: StoreScope, key: str, content: bytes) -> Parcel | None:
        if not self._hooks.offloads(scope):
            return None
        if len(content) > self._max_bytes:
            raise too_large_to_offload(len(content), self._max_bytes, f"`{key}` of {scope}")
        return Parcel(scope, key, content, "")

    def put(self, parcels: Sequence[Parcel]) -> Steps[list[str]]:
        references: list[str] = yield in_thread(lambda: list(map(self._put, parcels)))
        return references

    def _put(self, parcel: Parcel) -> str:
        where = f"{self.name} could not store `{parcel.key}` of {parcel.scope}"
        with _reported(where, "the entry is unchanged"):
            reference: Any = self._hooks.serialize(parcel.scope, parcel.key, decode(parcel.content))
        if not isinstance(reference, str) or not reference:
            raise BackendFailed(
                f"{where}: the reference is {reference!r:.60}, not text",
                hint="a serialize hook returns the reference as a string",
            )
        before = self._seen.setdefault((parcel.scope, parcel.key), reference)
        if before != reference:
            log.warning(
                "%s returned another reference for `%s` of %s than before (%s, now %s): "
                "references must depend on scope and key alone, or objects are never reclaimed",
                *(self.name, parcel.key, parcel.scope, one_line(before), one_line(reference)),
            )
        return reference

    def fetch(self, wanted: Sequence[tuple[StoreScope, str, str]]) -> Steps[list[str]]:
        texts: list[str] = yield in_thread(
            lambda: [self._fetch(scope, reference) for scope, _, reference in wanted]
        )
        return texts

    def _fetch(self, scope: StoreScope, reference: str) -> str:
        with _reported(
            f"{self.name} could not read `{one_line(reference)}` of {scope}",
            "the entry refers to an object that is missing or cannot be reached from here",
        ):
            text = encode(self._hooks.deserialize(scope, reference))
        if not fits(text, self._max_bytes):
            raise BackendFailed(
                f"`{one_line(reference)}` of {scope} refers to a value of {len(text.encode()):,} "
                f"bytes as JSON; the limit is {self._max_bytes:,}",
                hint="raise [object_store] max_value_bytes if a value this large was stored; "
                "otherwise set the key again",
            )
        return text

    def remove(self, purges: Sequence[Purge], seconds: float) -> Steps[dict[int, str]]:
        until = time.monotonic() + seconds
        tried: dict[int, str] = {}
        for purge in purges:
            if time.monotonic() > until:
                break
            if purge.value and not is_in_place(purge.value):
                tried[purge.id] = _ANOTHERS
                continue
            tried[purge.id] = ""
            if (yield from self._is_in_use(purge)):
                continue
            try:
                yield in_thread(partial(self._remove, purge))
            except HoldfastError as error:
                tried[purge.id] = str(error)
            except Exception as error:
                tried[purge.id] = f"{type(error).__name__}: {error}"
        return tried

    def clear(self, part: Part) -> Steps[bool]:
        assert part.scope is not None
        clear = partial(self._hooks.clear, part.scope, all_map_indices=part.all_map_indices)
        with _reported(
            f"{self.name}.clear of {part.scope} failed",
            "the objects are in the purge queue, and will be deleted one by one",
        ):
            return bool((yield in_thread(clear)))

    def _is_in_use(self, purge: Purge) -> Steps[bool]:
        """Return whether an entry needs the object: most hooks delete by scope and key alone."""
        try:
            text = yield c.Get(purge.scope, purge.key)
        except (UnknownTaskInstance, UnknownAsset):
            return False
        return text is not None and reference_in(text) is not None

    def _remove(self, purge: Purge) -> None:
        scope = purge.scope
        if isinstance(scope, AssetScope):
            scope = AssetScope(name=scope.name)  # as it was when the value was stored
        self._hooks.purge(scope, purge.key, reference_in(purge.value) or "")
