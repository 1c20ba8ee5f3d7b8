"""Values that stay in the workers' own storage: inward goes a reference, outward the value."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, TypeVar, cast

import msgspec

from holdfast import command as c
from holdfast import purge_command as pc
from holdfast import run_command as r
from holdfast.backend import BaseStoreBackend
from holdfast.blobs.steps import Call
from holdfast.condition import Guarded, Once
from holdfast.entry import Entry, Found, Page, TaskWriter, Version, Writer
from holdfast.errors import (
    BackendFailed,
    HoldfastError,
    NotSupported,
    ObjectBusy,
    StoreUnavailable,
    VersionConflict,
)
from holdfast.scope import AssetScope, StoreScope, TaskScope
from holdfast.store import Store
from holdfast.stores.keeping import Parcel, Steps, keeping
from holdfast.stores.reserving import GroupedReservations
from holdfast.value import HELD_TEXT, as_reference, is_reference, reference_in

A = TypeVar("A")

LEASE: Final = timedelta(minutes=2)
BATCH: Final = 1000
_MOST_READS: Final = 5
_PATIENCE: Final = 150.0
"""How long a writer waits for an object that is being deleted: longer than the lease is."""

log = logging.getLogger("holdfast")


class OffloadStore(Store):
    """A store whose values are kept by a worker-side backend.

    An object is reserved, written, and then named by the entry, in this order; an entry goes before
    its object. So a crash at any point leaves an object that the purge queue knows, and never a
    reference without an object.

    A third party's backend overwrites objects in place. Staged values are then held here until
    success, there is no old value to go back to, and a write that is refused for its version or
    attempt may have replaced the object.
    """

    large_values = True

    def __init__(self, inner: Store, backend: BaseStoreBackend, *, holds_back: bool = True) -> None:
        """`holds_back`: this process is going to say that the attempt succeeds."""
        self._store = inner
        self._backend = backend
        self._holds_back = holds_back
        self._keeping = keeping(backend)
        self._reservations = GroupedReservations(inner)
        self._names: dict[AssetScope, AssetScope] = {}
        self._staged: dict[tuple[Writer, StoreScope, str], c.Set] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._store, self._backend)

    @property
    def inline(self) -> Store:
        return self._store

    def supports(self, command: type[c.Command[Any]]) -> bool:
        return command not in (Once, Guarded) and self._store.supports(command)

    def execute(self, command: c.Command[A]) -> A:
        return cast(A, self._run(self._steps(command)))

    async def aexecute(self, command: c.Command[A]) -> A:
        return cast(A, await self._arun(self._steps(command)))

    def before_success(self, writer: TaskWriter) -> None:
        self._run(self._send_staged(writer))

    def purge(self, limit: int = BATCH) -> tuple[int, int]:
        """Delete up to so many objects that nothing names, whose turn it is: how many are gone, and
        how many could not be deleted, which the queue remembers."""
        return self._run(self._purge(pc.Part(), limit))

    def close(self) -> None:
        self._store.close()

    async def aclose(self) -> None:
        await self._store.aclose()

    def _run(self, steps: Steps[A]) -> A:
        try:
            wanted = next(steps)
            while True:
                try:
                    done = self._done(wanted)
                except Exception as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(done)
        except StopIteration as end:
            return cast(A, end.value)

    def _done(self, wanted: c.Command[Any] | Call) -> Any:
        return wanted.sync() if isinstance(wanted, Call) else self._store.execute(wanted)

    async def _arun(self, steps: Steps[A]) -> A:
        try:
            wanted = next(steps)
            while True:
                try:
                    if isinstance(wanted, Call):
                        done = await wanted.asynchronous()
                    elif isinstance(wanted, pc.ReserveObjects):
                        done = await self._reservations.reserve(wanted)
                    else:
                        done = await self._store.aexecute(wanted)
                except Exception as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(done)
        except StopIteration as end:
            return cast(A, end.value)

    def _steps(self, command: c.Command[Any]) -> Steps[Any]:
        match command:
            case c.Set() | c.SetMany():
                return (yield from self._write(command))
            case r.Emit():
                return (yield from self._emit(command))
            case c.Advance():
                yield from self._bring_inline(command)
            case c.Get() | c.GetEntry() | c.History() | c.List():
                return (yield from self._read(command))
            case c.Rewind():
                return (yield from self._rewind(command))
            case c.Delete() | c.Clear():
                return (yield from self._delete(command))
            case c.FinishAttempt():
                return (yield from self._finish(command))
            case Once() | Guarded():
                raise NotSupported(
                    f"{self._keeping.name} is asked for a command around another",
                    hint="whoever makes those stands behind the workers, not in front of them",
                )
        return (yield command)

    # out

    def _write(self, command: c.Set | c.SetMany) -> Steps[Any]:
        if isinstance(command, c.Set) and command.on_success:
            if self._keeping.in_place:
                command = self._held(command)
            else:
                noted = msgspec.structs.replace(command, value="")
                self._staged[command.writer, command.scope, command.key] = noted
        return (yield from self._sent((command,), lambda sent: sent[0]))

    def _held(self, command: c.Set) -> c.Set:
        """A staged write, without its value: the object that stands would be gone if the attempt
        failed."""
        if self._keeping.parcel(command.scope, command.key, b"") is None:
            return command
        if not self._holds_back:
            raise NotSupported(
                f"{self._keeping.name} cannot stage `{command.key}` of {command.scope} from here",
                hint="its objects are overwritten in place, so a staged value waits in the task's "
                "own process: stage it there, with what the executors have computed",
            )
        self._staged[command.writer, command.scope, command.key] = command
        return msgspec.structs.replace(command, value=HELD_TEXT)

    def _emit(self, command: r.Emit) -> Steps[Any]:
        def emitted(writes: Sequence[c.Command[Any]]) -> c.Command[Any]:
            return msgspec.structs.replace(command, writes=tuple(writes))

        return (yield from self._sent(command.writes, emitted))

    def _sent(
        self,
        writes: Sequence[c.Command[Any]],
        combined: Callable[[Sequence[c.Command[Any]]], c.Command[Any]],
    ) -> Steps[Any]:
        """Put the values of these writes into storage, and send them with references instead."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            reserved: list[pc.ReserveObjects] = []
            try:
                sent = []
                for write in writes:
                    sent.append((yield from self._offloaded(write, reserved)))
                return (yield combined(sent))
            except ObjectBusy:
                if time.monotonic() > deadline:
                    raise
                yield Call(lambda: time.sleep(0.2), lambda: asyncio.sleep(0.2))
            except StoreUnavailable:
                raise  # it may have been written: what was reserved is looked at when that is over
            except Exception:
                yield from self._release(reserved)
                raise

    def _offloaded(
        self, write: c.Command[Any], reserved: list[pc.ReserveObjects]
    ) -> Steps[c.Command[Any]]:
        """The write with references in it. What is reserved for it is noted."""
        if not isinstance(write, c.Set | c.SetMany):
            return write
        given = [(write.key, write.value)] if isinstance(write, c.Set) else write.values
        scope = yield from self._named(write.scope)
        texts, parcels = [], []
        for key, text in dict(given).items():
            parcel = self._parcel(scope, key, text)
            if parcel is None:
                texts.append((key, _text(text)))
            else:
                parcels.append(parcel)
        if parcels:
            values = tuple(parcel.reserved for parcel in parcels)
            reserve = pc.ReserveObjects(write.scope, values, write.writer)
            yield reserve
            reserved.append(reserve)
            references = yield from self._keeping.put(parcels)
            named = zip(parcels, references, strict=True)
            texts += [
                (parcel.key, as_reference(place, self._keeping.in_place)) for parcel, place in named
            ]
        if isinstance(write, c.Set):
            return msgspec.structs.replace(write, value=texts[0][1])
        return msgspec.structs.replace(write, values=tuple(texts))

    def _parcel(self, scope: StoreScope, key: str, text: str | bytes) -> Parcel | None:
        if text == HELD_TEXT:
            return None
        content = text if isinstance(text, bytes) else text.encode()
        return self._keeping.parcel(scope, key, content)

    def _release(self, reserved: Iterable[pc.ReserveObjects]) -> Steps[None]:
        """What was reserved for a write that was refused is of no use any more."""
        for one in reserved:
            try:
                yield pc.ReleaseObjects(one.scope, one.values, one.writer)
            except HoldfastError as error:
                log.warning("%s is looked at again in %s: %s", one.scope, pc.RESERVED_FOR, error)

    def _named(self, scope: StoreScope) -> Steps[StoreScope]:
        """An asset by its name alone, by which its objects are found."""
        if isinstance(scope, TaskScope):
            return scope
        if scope not in self._names:
            name = scope.name or (yield c.GetAsset(scope)).name
            self._names[scope] = AssetScope(name=name)
        return self._names[scope]

    def _bring_inline(self, command: c.Advance) -> Steps[None]:
        """The server compares what it holds, so what stands and what is staged has to be there."""
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
                    staged = self._staged.pop((writer, command.scope, command.key), inline)
                    inline = msgspec.structs.replace(staged, value=text)
                with suppress(VersionConflict):  # somebody else has brought it, or written it
                    yield inline
                entry = yield c.GetEntry(command.scope, command.key, asking)

    # in

    def _read(self, command: c.Command[Any]) -> Steps[Any]:
        answer = yield command
        for more in reversed(range(_MOST_READS)):
            try:
                return (yield from self._answered(command, answer))
            except BackendFailed:
                # The entry may have been overwritten, and its object purged, since it was read.
                again = yield command
                if again == answer or not more:
                    raise
                answer = again
        raise AssertionError

    def _answered(self, command: Any, answer: Any) -> Steps[Any]:
        """What a store answers, with values instead of references."""
        reader = getattr(command, "reader", None)
        match answer:
            case str():
                return (yield from self._resolved(reader, command.scope, command.key, answer))
            case Entry(value=str(text)) | Version(value=str(text)):
                value = yield from self._resolved(reader, command.scope, command.key, text)
                return msgspec.structs.replace(answer, value=value)
            case Page():
                places = [(at.scope, at.entry.key, at.entry.value) for at in answer.found]
                values = yield from self._all_resolved(reader, places)
                found = tuple(
                    Found(at.scope, msgspec.structs.replace(at.entry, value=value))
                    for at, value in zip(answer.found, values, strict=True)
                )
                return msgspec.structs.replace(answer, found=found)
            case tuple():
                return (yield from self._history(command, answer))
        return answer

    def _history(self, command: c.History, steps: tuple[Version[str], ...]) -> Steps[Any]:
        self._check_past(command, [step.value for step in steps[1:]])
        places = [(command.scope, command.key, step.value or "") for step in steps]
        values = yield from self._all_resolved(None, places)
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
        self, reader: TaskWriter | None, places: Sequence[tuple[StoreScope, str, str]]
    ) -> Steps[list[str]]:
        """The JSON texts themselves, of what may be references, or held for the reader."""
        wanted = []
        for scope, _, text in places:
            reference = reference_in(text)
            if reference is not None:
                wanted.append((scope, reference))
        fetched = (yield from self._keeping.fetch(wanted)) if wanted else []
        fetched.reverse()
        values = []
        for scope, key, text in places:
            if text == HELD_TEXT:
                values.append(self._held_text(reader, scope, key))
            else:
                values.append(fetched.pop() if is_reference(text) else text)
        return values

    def _held_text(self, reader: TaskWriter | None, scope: StoreScope, key: str) -> str:
        for (writer, owner, name), command in self._staged.items():
            if (writer, name) == (reader, key) and _same_asset(owner, scope):
                return _text(command.value)
        raise BackendFailed(
            f"`{key}` of {scope} is staged, and {self._keeping.name} stores it only when the "
            "attempt succeeds",
            hint="until then it can be read where it was written: in the task's own process",
        )

    def _rewind(self, command: c.Rewind) -> Steps[Any]:
        if self._keeping.in_place:
            step = yield msgspec.structs.replace(command, dry_run=True)
            self._check_past(command, [step.value if step else None])
        step = yield command
        return (yield from self._answered(command, step))

    def _check_past(self, command: c.History | c.Rewind, values: Iterable[str | None]) -> None:
        """Where objects are overwritten in place, old references lead to the new value."""
        if self._keeping.in_place and any(map(is_reference, filter(None, values))):
            raise NotSupported(
                f"{self._keeping.name} keeps no old values of `{command.key}` of {command.scope}",
                hint="its objects are overwritten in place: there is nothing to go back to; "
                "ObjectStoreBackend keeps them",
            )

    # the end of entries and of attempts

    def _delete(self, command: c.Delete | c.Clear) -> Steps[None]:
        yield command
        scope = yield from self._named(command.scope)
        yield from self._tidy(pc.Part(scope, getattr(command, "all_map_indices", False)))

    def _finish(self, command: c.FinishAttempt) -> Steps[None]:
        writer = command.writer
        if command.succeeded:
            yield from self._send_staged(writer)
        yield command
        for place in [place for place in self._staged if place[0] == writer]:
            del self._staged[place]
        yield from self._tidy(pc.Part(writer.scope))

    def _send_staged(self, writer: TaskWriter) -> Steps[None]:
        """Put what was held into storage, and stage the references."""
        if self._keeping.in_place:
            for place, command in list(self._staged.items()):
                if place[0] == writer:
                    yield from self._sent((command,), lambda sent: sent[0])
                    del self._staged[place]

    def _tidy(self, part: pc.Part) -> Steps[None]:
        """Delete what a change has left without a name. What fails, the queue remembers."""
        try:
            while (yield from self._purge(part, BATCH)) == (BATCH, 0):
                pass
        except HoldfastError as error:
            log.warning("objects of %s are left to be purged: %s", part.scope, error)

    def _purge(self, part: pc.Part, limit: int) -> Steps[tuple[int, int]]:
        purges = yield pc.TakePurges(limit, LEASE, part)
        if not purges:
            return 0, 0
        try:
            tried = yield from self._keeping.remove(purges, LEASE.total_seconds() / 2)
        except HoldfastError as error:
            tried = {purge.id: str(error) for purge in purges}
        gone = tuple(id for id, error in tried.items() if not error)
        failed = tuple((id, error) for id, error in tried.items() if error)
        yield pc.FinishPurges(gone, failed, part)
        if failed:
            log.warning("%d objects could not be deleted yet: %s", len(failed), failed[0][1])
        return len(gone), len(failed)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _same_asset(one: StoreScope, other: StoreScope) -> bool:
    """Known by its name to both, or else by its URI."""
    if not isinstance(one, AssetScope) or not isinstance(other, AssetScope):
        return False
    return one.name == other.name if one.name and other.name else one.uri == other.uri
