"""Offloading store: writes send references to the inner store, reads return values."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar, cast
from uuid import uuid4

import msgspec

from holdfast import commands as c
from holdfast import flow
from holdfast.commands import Guarded, Once
from holdfast.errors import (
    BackendFailed,
    HoldfastError,
    NotSupported,
    ObjectBusy,
    StoreUnavailable,
    UnknownAsset,
    VersionConflict,
)
from holdfast.flow import Call
from holdfast.model.entry import Entry, Found, Page, TaskWriter, Version, Writer
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import HELD_TEXT, as_reference, is_reference, reference_in
from holdfast.portable.backoff import Backoff
from holdfast.settings import ObjectStore
from holdfast.store import Store
from holdfast.stores.backend.base import BaseStoreBackend
from holdfast.stores.offload.purging import BATCH, Purged, Purging
from holdfast.stores.offload.reference_store import ReferenceStore
from holdfast.stores.offload.reservations import GroupedReservations
from holdfast.stores.offload.storage import Parcel, Steps, storage_for

A = TypeVar("A")

_MOST_READS: Final = 5
_BUSY_TIMEOUT: Final = 330.0
"""Seconds that a writer waits for an object that is being deleted: longer than the lease."""

_DEFAULTS: Final = ObjectStore()

log = logging.getLogger("holdfast")


class OffloadStore(ReferenceStore):
    """Store whose values are offloaded to a worker-side backend.

    An object is reserved, written, and then named by the entry, in this order; an entry is deleted
    before its object. So a crash at any point leaves an object that the purge queue knows, and
    never a reference without an object.

    A third party's backend overwrites objects in place. Staged values are then held here until
    success, there is no old value to rewind to, and a write that is refused for its version or
    attempt may have replaced the object.
    """

    def __init__(
        self,
        inner: Store,
        backend: BaseStoreBackend,
        *,
        holds_back: bool = True,
        max_value_bytes: int = _DEFAULTS.max_value_bytes,
    ) -> None:
        """With `holds_back`, this process is the one that reports the attempt's success."""
        super().__init__(inner)
        self._backend = backend
        self._holds_back = holds_back
        self._max_value_bytes = max_value_bytes
        self._storage = storage_for(backend, max_value_bytes)
        self._reservations = GroupedReservations(inner)
        self._names: dict[AssetScope, AssetScope] = {}
        self._staged: dict[tuple[Writer, StoreScope, str], c.Set] = {}
        self._purging = Purging(self._storage)

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(
            type(self), holds_back=self._holds_back, max_value_bytes=self._max_value_bytes
        )
        return made, (self.inner, self._backend)

    def supports(self, command: type[c.Command[Any]]) -> bool:
        return command not in (Once, Guarded) and super().supports(command)

    def execute(self, command: c.Command[A]) -> A:
        return cast(A, self._run(self._steps(command)))

    async def aexecute(self, command: c.Command[A]) -> A:
        return cast(A, await self._arun(self._steps(command)))

    def before_success(self, writer: TaskWriter) -> None:
        self._run(self._send_staged(writer))

    def purge(
        self, limit: int = BATCH, scope: StoreScope | None = None, *, retry: bool = False
    ) -> Purged:
        """Delete up to so many due objects that nothing refers to, of all scopes or of one; with
        `retry`, also those whose deletion has just failed. Failures stay in the queue."""
        return self._run(self._purging.purge(c.Part(scope), limit, retry=retry))

    def _run(self, steps: Steps[A]) -> A:
        return flow.run(steps, self._do)

    async def _arun(self, steps: Steps[A]) -> A:
        return await flow.arun(steps, self._ado)

    def _do(self, wanted: c.Command[Any] | Call) -> Any:
        return wanted.sync() if isinstance(wanted, Call) else self.inner.execute(wanted)

    async def _ado(self, wanted: c.Command[Any] | Call) -> Any:
        if isinstance(wanted, Call):
            return await wanted.asynchronous()
        if isinstance(wanted, c.ReserveObjects):
            return await self._reservations.reserve(wanted)
        return await self.inner.aexecute(wanted)

    def _steps(self, command: c.Command[Any]) -> Steps[Any]:
        if command.category is c.Category.READS_ENTRIES:
            return (yield from self._read(command))
        match command:
            case c.Set() | c.SetMany():
                return (yield from self._write(command))
            case c.Emit():
                return (yield from self._emit(command))
            case c.Advance():
                yield from self._bring_inline(command)
            case c.Rewind():
                return (yield from self._rewind(command))
            case c.Delete() | c.Clear():
                return (yield from self._delete(command))
            case c.FinishAttempt():
                return (yield from self._finish(command))
            case Once() | Guarded():
                raise NotSupported(
                    f"{self._storage.name} does not support commands that wrap another",
                    hint="send them to the store behind it",
                )
        return (yield command)

    # Writes

    def _write(self, command: c.Set | c.SetMany) -> Steps[Any]:
        if not isinstance(command, c.Set) or not command.on_success:
            return (yield from self._sent((command,), lambda sent: sent[0]))
        scope = yield from self._writable(command)
        staged_key = command.writer, scope, command.key
        noted, sent = self._staged_as(command)
        answer = yield from self._sent((sent,), lambda sent: sent[0])
        self._staged[staged_key] = noted
        return answer

    def _staged_as(self, command: c.Set) -> tuple[c.Set, c.Set]:
        """Return a staged write as it is remembered here, and as it is sent. Its value is in one of
        them: held back here if it would overwrite the current object, which would be lost if the
        attempt failed, and sent otherwise."""
        kept = self._storage.in_place and self._parcel(command.scope, command.key, command.value)
        if not kept:
            return msgspec.structs.replace(command, value=""), command
        if not self._holds_back:
            raise NotSupported(
                f"{self._storage.name} cannot stage `{command.key}` of {command.scope} from here",
                hint="its objects are overwritten in place, so a staged value waits in the task's "
                "own process: collect the results of the executors, and stage it there",
            )
        return command, msgspec.structs.replace(command, value=HELD_TEXT)

    def _emit(self, command: c.Emit) -> Steps[Any]:
        standing = yield from self._standing(command.writes)
        while True:

            def emitted(
                writes: Sequence[c.Command[Any]], standing: Sequence[c.Set | None] = standing
            ) -> c.Command[Any]:
                both = chain.from_iterable(zip(standing, writes, strict=True))
                return msgspec.structs.replace(command, writes=tuple(filter(None, both)))

            try:
                return (yield from self._sent(command.writes, emitted))
            except VersionConflict:
                before, standing = standing, (yield from self._standing(command.writes))
                if standing == before:
                    raise  # the conflict is that of a write of the command itself

    def _standing(self, writes: Sequence[c.Command[Any]]) -> Steps[list[c.Set | None]]:
        """Return for each advance over a reference the write that first brings its value inline."""
        found: list[c.Set | None] = []
        for write in writes:
            found.append(None)
            if isinstance(write, c.Advance):
                entry = yield c.GetEntry(write.scope, write.key)
                if entry is not None and is_reference(entry.value):
                    text = yield from self._resolved(None, write.scope, write.key, entry.value)
                    written = write.scope, write.key, text, write.writer
                    found[-1] = c.Set(*written, if_version=entry.version)
        return found

    def _sent(
        self,
        writes: Sequence[c.Command[Any]],
        combined: Callable[[Sequence[c.Command[Any]]], c.Command[Any]],
    ) -> Steps[Any]:
        """Offload the values of these writes, and send them with references instead. Retry while an
        object is being deleted; raise ObjectBusy when the deadline has passed."""
        deadline, backoff = time.monotonic() + _BUSY_TIMEOUT, Backoff(0.01, 0.5)
        while True:
            reserved: list[c.ReserveObjects] = []
            try:
                sent = []
                for write in writes:
                    sent.append((yield from self._offloaded(write, reserved)))
                return (yield combined(sent))
            except ObjectBusy:
                yield from self._release(reserved)
                if time.monotonic() > deadline:
                    raise
                pause = backoff.pause()
                yield Call(partial(time.sleep, pause), partial(asyncio.sleep, pause))
            except StoreUnavailable:
                raise  # it may have been written: the reservation is checked when it expires
            except Exception:
                yield from self._release(reserved)
                raise

    def _offloaded(
        self, write: c.Command[Any], reserved: list[c.ReserveObjects]
    ) -> Steps[c.Command[Any]]:
        """Return the write with references in it. Append its reservations to `reserved`."""
        if not isinstance(write, c.Set | c.SetMany):
            return write
        given = [(write.key, write.value)] if isinstance(write, c.Set) else write.values
        scope = yield from self._writable(write)
        texts, parcels = [], []
        for key, text in dict(given).items():
            parcel = self._parcel(scope, key, text)
            if parcel is None:
                texts.append((key, text))
            else:
                parcels.append(parcel)
        if parcels:
            reservation = uuid4().hex
            objects = tuple(parcel.reserved(reservation) for parcel in parcels)
            for first in range(0, len(objects), BATCH):
                some = objects[first : first + BATCH]
                reserve = c.ReserveObjects(write.scope, some, write.writer)
                yield reserve
                reserved.append(reserve)
            write = msgspec.structs.replace(write, reservation=reservation)
            references = yield from self._storage.put(parcels)
            named = zip(parcels, references, strict=True)
            texts += [
                (parcel.key, as_reference(reference, self._storage.in_place))
                for parcel, reference in named
            ]
        if isinstance(write, c.Set):
            return msgspec.structs.replace(write, value=texts[0][1])
        return msgspec.structs.replace(write, values=tuple(texts))

    def _parcel(self, scope: StoreScope, key: str, text: str) -> Parcel | None:
        if text == HELD_TEXT:
            return None
        return self._storage.parcel(scope, key, text.encode())

    def _release(self, reserved: Iterable[c.ReserveObjects]) -> Steps[None]:
        """Release the objects that were reserved for a refused write."""
        for one in reserved:
            try:
                yield c.ReleaseObjects(one.scope, one.objects, one.writer)
            except HoldfastError as error:
                log.warning(
                    "could not release the reserved objects of %s; they are checked again "
                    "in %s: %s",
                    one.scope,
                    c.RESERVED_FOR,
                    error,
                )

    def _writable(self, write: c.Set | c.SetMany) -> Steps[StoreScope]:
        """Return the scope of a write by name. Raise the error with which the store refuses it."""
        try:
            return (yield from self._named(write.scope))
        except UnknownAsset:
            # An attempt that has ended is refused as such, whatever it writes to.
            yield c.ReserveObjects(write.scope, (), write.writer)
            raise

    def _named(self, scope: StoreScope) -> Steps[StoreScope]:
        """Return an asset's scope by its name alone, by which its objects are found."""
        if isinstance(scope, TaskScope):
            return scope
        if scope not in self._names:
            name = scope.name or (yield c.GetAsset(scope)).name
            self._names[scope] = AssetScope(name=name)
        return self._names[scope]

    def _bring_inline(self, command: c.Advance) -> Steps[None]:
        """Replace a reference, current or staged, by its value, which the server has to compare."""
        writer = command.writer
        readers = (None, writer) if isinstance(writer, TaskWriter) else (None,)
        for asking in readers:
            entry = yield c.GetEntry(command.scope, command.key, asking)
            while entry and (entry.value == HELD_TEXT or is_reference(entry.value)):
                text = yield from self._resolved(asking, command.scope, command.key, entry.value)
                inline = c.Set(
                    *(command.scope, command.key, text, writer),
                    if_version=None if entry.staged else entry.version,
                    on_success=entry.staged,
                )
                if entry.staged:
                    scope = yield from self._named(command.scope)
                    staged = self._staged.pop((writer, scope, command.key), inline)
                    inline = msgspec.structs.replace(staged, value=text)
                with suppress(VersionConflict):  # somebody has brought it inline, or overwritten it
                    yield inline
                entry = yield c.GetEntry(command.scope, command.key, asking)

    # Reads

    def _read(self, command: c.Command[Any]) -> Steps[Any]:
        answer = yield command
        same = 0
        for _ in range(_MOST_READS):
            try:
                return (yield from self._answered(command, answer))
            except BackendFailed:
                # The entry may have been overwritten and its object purged since it was read; or
                # its object was deleted, and the same value was written again.
                again = yield command
                same += again == answer
                if same > 1:
                    raise
                answer = again
        return (yield from self._answered(command, answer))

    def _answered(self, command: Any, answer: Any) -> Steps[Any]:
        """Return a store's response with values instead of references."""
        reader = command.reader
        match answer:
            case str():
                return (yield from self._resolved(reader, command.scope, command.key, answer))
            case Entry(value=str(text)) | Version(value=str(text)):
                value = yield from self._resolved(reader, command.scope, command.key, text)
                return msgspec.structs.replace(answer, value=value)
            case Page():
                stored = [(at.scope, at.entry.key, at.entry.value) for at in answer.found]
                values = yield from self._all_resolved(reader, stored)
                found = tuple(
                    Found(at.scope, msgspec.structs.replace(at.entry, value=value))
                    for at, value in zip(answer.found, values, strict=True)
                )
                return msgspec.structs.replace(answer, found=found)
            case tuple():
                return (yield from self._history(command, answer))
        return answer

    def _history(self, command: c.History, steps: tuple[Version[str], ...]) -> Steps[Any]:
        past = steps if command.before is not None else steps[1:]
        self._check_past(command, [step.value for step in past])
        stored = [(command.scope, command.key, step.value or "") for step in steps]
        values = yield from self._all_resolved(None, stored)
        return tuple(
            step if step.value is None else msgspec.structs.replace(step, value=value)
            for step, value in zip(steps, values, strict=True)
        )

    def _resolved(
        self, reader: TaskWriter | None, scope: StoreScope, key: str, text: str
    ) -> Steps[str]:
        [value] = yield from self._all_resolved(reader, [(scope, key, text)])
        return value

    def _all_resolved(
        self, reader: TaskWriter | None, stored: Sequence[tuple[StoreScope, str, str]]
    ) -> Steps[list[str]]:
        """Return the JSON texts, reading those that are references or held back for the reader."""
        wanted = []
        for scope, key, text in stored:
            if is_reference(text):
                wanted.append(((yield from self._named(scope)), key, reference_in(text) or ""))
        fetched = (yield from self._storage.fetch(wanted)) if wanted else []
        fetched.reverse()
        values = []
        for scope, key, text in stored:
            if text == HELD_TEXT:
                values.append(self._held_text(reader, (yield from self._named(scope)), key))
            else:
                values.append(fetched.pop() if is_reference(text) else text)
        return values

    def _held_text(self, reader: TaskWriter | None, scope: StoreScope, key: str) -> str:
        held = self._staged.get((reader, scope, key)) if reader else None
        if held is not None:
            return held.value
        raise BackendFailed(
            f"`{key}` of {scope} is staged, and {self._storage.name} stores it only when the "
            "attempt succeeds",
            hint="until then, read it in the task's own process",
        )

    def _rewind(self, command: c.Rewind) -> Steps[Any]:
        step = yield msgspec.structs.replace(command, dry_run=True)
        step = yield from self._answered(command, step)  # before anything is changed
        if not command.dry_run:
            yield command
        return step

    def _check_past(self, command: c.History, values: Iterable[str | None]) -> None:
        """Raise NotSupported if old references lead to the new value, overwritten in place."""
        if self._storage.in_place and any(map(is_reference, filter(None, values))):
            raise NotSupported(
                f"{self._storage.name} keeps no old values of `{command.key}` of {command.scope}",
                hint="its objects are overwritten in place; ObjectStoreBackend keeps old values",
            )

    # Deletion, and the end of attempts

    def _delete(self, command: c.Delete | c.Clear) -> Steps[None]:
        yield command
        scope = yield from self._named(command.scope)
        if isinstance(command, c.Delete):
            yield from self._purging.tidy(c.Part(scope))
        else:
            yield from self._purging.tidy(c.Part(scope, command.all_map_indices), whole=True)

    def _finish(self, command: c.FinishAttempt) -> Steps[None]:
        writer = command.writer
        if command.succeeded:
            yield from self._send_staged(writer)
        yield command
        for staged_key in [staged_key for staged_key in self._staged if staged_key[0] == writer]:
            del self._staged[staged_key]
        yield from self._purging.tidy(c.Part(writer.scope), whole=command.clear)

    def _send_staged(self, writer: TaskWriter) -> Steps[None]:
        """Offload the values that were held back, and stage their references."""
        if self._storage.in_place:
            for staged_key, command in list(self._staged.items()):
                if staged_key[0] == writer and command.value:
                    yield from self._sent((command,), lambda sent: sent[0])
                    del self._staged[staged_key]
