"""What a pipeline holds in its hands: the task store and the asset store of one scope.

An operation is written once, as a generator that yields commands and is sent their answers;
`get` and `aget`, `set` and `aset` only differ in the door that the commands go through.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import msgspec

from holdfast import commands as c
from holdfast.errors import (
    BackendFailed,
    InvalidInput,
    InvalidType,
    UnknownTaskInstance,
)
from holdfast.model.entry import Entry, TaskWriter, Version, Writer
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import (
    JsonValue,
    decode,
    decode_entry,
    encode,
    encoded,
    fits,
    reference_in,
    size_warning,
)
from holdfast.portable.identifier import one_line
from holdfast.portable.retention import expires_at
from holdfast.store import Steps, Store, arun, run
from holdfast.stores.offload.configuration import Offloading

if TYPE_CHECKING:
    from holdfast.portable.handle import AssetHandle, TaskHandle

A = TypeVar("A")

log = logging.getLogger("holdfast")


class Rules(msgspec.Struct, frozen=True):
    """What the configuration says about values and their lifetime."""

    default_retention: timedelta = timedelta(days=30)
    max_value_bytes: int = 65535
    clear_on_success: bool = False
    offloading: Offloading = Offloading()


class Accessor:
    """The entries of one scope, as one writer sees and changes them."""

    def __init__(
        self, store: Store, scope: StoreScope, writer: Writer, rules: Rules | None = None
    ) -> None:
        self._store = store
        self._scope = scope
        self._writer = writer
        self._reader = writer if isinstance(writer, TaskWriter) else None
        self._rules = rules or Rules()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._scope}>"

    def _inline(self) -> Self:
        """The same entries, with values that do not go to a worker-side backend."""
        return type(self)(self._store.inline, self._scope, self._writer, self._rules)

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default where there is no entry."""
        return run(self._store, self._get(key, default))

    async def aget(self, key: str, default: Any = None) -> Any:
        return await arun(self._store, self._get(key, default))

    def entry(self, key: str) -> Entry[Any] | None:
        """The value with its version, times and writer; None where there is no entry."""
        return run(self._store, self._entry(key))

    async def aentry(self, key: str) -> Entry[Any] | None:
        return await arun(self._store, self._entry(key))

    def keys(self) -> list[str]:
        """Every key, in order."""
        return run(self._store.inline, self._keys())

    async def akeys(self) -> list[str]:
        return await arun(self._store.inline, self._keys())

    def items(self) -> list[tuple[str, Any]]:
        """Every key with its value, in order of keys."""
        return run(self._store, self._items())

    async def aitems(self) -> list[tuple[str, Any]]:
        return await arun(self._store, self._items())

    def delete(self, key: str) -> None:
        """Remove the entry; nothing happens where there is none."""
        run(self._store, self._write(c.Delete(self._scope, key, self._writer)))

    async def adelete(self, key: str) -> None:
        await arun(self._store, self._write(c.Delete(self._scope, key, self._writer)))

    def _get(self, key: str, default: Any) -> Steps[Any]:
        text = yield c.Get(self._scope, key, self._reader)
        return default if text is None else self._decode(key, text)

    def _entry(self, key: str) -> Steps[Entry[Any] | None]:
        entry = yield c.GetEntry(self._scope, key, self._reader)
        if entry is None:
            return None
        value = self._decode(key, entry.value)
        decoded: Entry[Any] = msgspec.structs.replace(entry, value=value)
        return decoded

    def _keys(self) -> Steps[list[str]]:
        page = yield c.List(self._scope, reader=self._reader)
        return [found.entry.key for found in page.found]

    def _items(self) -> Steps[list[tuple[str, Any]]]:
        page = yield c.List(self._scope, reader=self._reader)
        entries = [found.entry for found in page.found]
        return [(entry.key, self._decode(entry.key, entry.value)) for entry in entries]

    def _write(self, command: c.Command[A]) -> Steps[A]:
        answer: A = yield command
        return answer

    def _decode(self, key: str, text: str) -> Any:
        reference = reference_in(text)
        if reference is not None:
            raise BackendFailed(
                f"`{key}` of {self._scope} is kept elsewhere, at {one_line(reference)}",
                hint="set [workers] state_backend here as it was where the value was written",
            )
        return decode_entry(text, f"`{key}` of {self._scope}")

    def _encode(self, key: str, value: JsonValue) -> str:
        try:
            if self._store.large_values:
                return cast(str, encoded(value))
            text = encode(value)
        except (InvalidInput, InvalidType) as error:
            raise located(error, f"`{key}` of {self._scope}") from None
        if not fits(text, self._rules.max_value_bytes):
            # A running task is not interrupted for the size of a value.
            limit = self._rules.max_value_bytes
            log.warning("%s", size_warning(text, limit, f"`{key}` of {self._scope}"))
        return text

    def _encode_all(self, values: Mapping[str, JsonValue]) -> tuple[tuple[str, str], ...]:
        if not isinstance(values, Mapping):
            raise InvalidType(f"set_many takes a mapping, not {type(values).__name__}")
        return tuple((key, self._encode(key, value)) for key, value in values.items())


class TaskStore(Accessor):
    """The store of one task instance. It outlives crashes and retries; entries expire."""

    _scope: TaskScope

    def set(
        self,
        key: str,
        value: JsonValue,
        *,
        retention: timedelta | None = None,
        if_version: int | None = None,
    ) -> None:
        """Write or overwrite. Once this returns, the write survives a crash of everything."""
        run(self._store, self._set(key, value, retention, if_version))

    async def aset(
        self,
        key: str,
        value: JsonValue,
        *,
        retention: timedelta | None = None,
        if_version: int | None = None,
    ) -> None:
        await arun(self._store, self._set(key, value, retention, if_version))

    def set_many(
        self, values: Mapping[str, JsonValue], *, retention: timedelta | None = None
    ) -> None:
        """Write all of them, or none."""
        run(self._store, self._set_many(values, retention))

    async def aset_many(
        self, values: Mapping[str, JsonValue], *, retention: timedelta | None = None
    ) -> None:
        await arun(self._store, self._set_many(values, retention))

    def clear(self, all_map_indices: bool = False) -> None:
        """Remove every key of this task instance, or of all its map indices in this run."""
        run(self._store, self._write(self._clear(all_map_indices)))

    async def aclear(self, all_map_indices: bool = False) -> None:
        await arun(self._store, self._write(self._clear(all_map_indices)))

    def handle(self) -> TaskHandle:
        """This store for Spark's executors: to be used inside the functions that Spark calls
        there. It is good for as long as the attempt lives."""
        from holdfast.spark.handles import task_handle

        return task_handle(self)

    def _set(
        self, key: str, value: JsonValue, retention: timedelta | None, if_version: int | None
    ) -> Steps[int]:
        check_version(if_version)
        text = self._encode(key, value)
        expiry = self._expiry(retention)
        return self._write(c.Set(self._scope, key, text, self._writer, expiry, if_version))

    def _set_many(self, values: Mapping[str, JsonValue], retention: timedelta | None) -> Steps[int]:
        texts = self._encode_all(values)
        return self._write(c.SetMany(self._scope, texts, self._writer, self._expiry(retention)))

    def _clear(self, all_map_indices: bool) -> c.Clear:
        return c.Clear(self._scope, self._writer, all_map_indices)

    def _expiry(self, retention: timedelta | None) -> datetime | None:
        try:
            return expires_at(retention, self._rules.default_retention, datetime.now(UTC))
        except (InvalidInput, InvalidType) as error:
            raise located(error, str(self._scope)) from None


class ExternalTaskStore(TaskStore):
    """The task store for a program that Holdfast did not start: a first write registers its run."""

    def _write(self, command: c.Command[A]) -> Steps[A]:
        try:
            answer: A = yield command
        except UnknownTaskInstance:
            if not isinstance(command, c.Set | c.SetMany):
                raise  # a mistyped name must not become a task instance by being cleared
            yield c.RegisterTask(self._scope)
            answer = yield command
        return answer

    def handle(self) -> TaskHandle:
        """As that of a task; it registers the run, too, and is good for as long as the connection
        is open, a week at most."""
        self._store.execute(c.RegisterTask(self._scope))
        return super().handle()


class AssetStore(Accessor):
    """The store of one asset, whatever the run. Entries do not expire and have a history."""

    _scope: AssetScope

    def set(
        self,
        key: str,
        value: JsonValue,
        *,
        on_success: bool = False,
        if_version: int | None = None,
    ) -> None:
        """Write or overwrite; with `on_success`, when this attempt succeeds and only then."""
        run(self._store, self._set(key, value, on_success, if_version))

    async def aset(
        self,
        key: str,
        value: JsonValue,
        *,
        on_success: bool = False,
        if_version: int | None = None,
    ) -> None:
        await arun(self._store, self._set(key, value, on_success, if_version))

    def set_many(self, values: Mapping[str, JsonValue]) -> None:
        """Write all of them, or none."""
        run(self._store, self._set_many(values))

    async def aset_many(self, values: Mapping[str, JsonValue]) -> None:
        await arun(self._store, self._set_many(values))

    def advance(self, key: str, value: str | float, *, on_success: bool = False) -> Any:
        """Move a number or string forward, never back; returns the value that stands."""
        return run(self._store, self._advance(key, value, on_success))

    async def aadvance(self, key: str, value: str | float, *, on_success: bool = False) -> Any:
        return await arun(self._store, self._advance(key, value, on_success))

    def clear(self) -> None:
        """Remove every key of this asset."""
        run(self._store, self._write(c.Clear(self._scope, self._writer)))

    async def aclear(self) -> None:
        await arun(self._store, self._write(c.Clear(self._scope, self._writer)))

    def history(self, key: str) -> list[Version[Any]]:
        """The last versions, newest first, with time and writer; deletions have no value."""
        return run(self._store, self._history(key))

    async def ahistory(self, key: str) -> list[Version[Any]]:
        return await arun(self._store, self._history(key))

    def rewind(
        self,
        key: str,
        *,
        version: int | None = None,
        run_id: str | None = None,
        at: datetime | None = None,
        dry_run: bool = False,
    ) -> Version[Any] | None:
        """Put an old value back, as a new version: that version, as it was before that run first
        wrote, or as it was at that time. Returns the step that is put back; None: absent."""
        return run(self._store, self._rewind(key, version, run_id, at, dry_run))

    async def arewind(
        self,
        key: str,
        *,
        version: int | None = None,
        run_id: str | None = None,
        at: datetime | None = None,
        dry_run: bool = False,
    ) -> Version[Any] | None:
        return await arun(self._store, self._rewind(key, version, run_id, at, dry_run))

    def handle(self) -> AssetHandle:
        """This store for Spark's executors: to be used inside the functions that Spark calls
        there. It is good for as long as the attempt lives."""
        from holdfast.spark.handles import asset_handle

        return asset_handle(self)

    def _set(
        self, key: str, value: JsonValue, on_success: bool, if_version: int | None
    ) -> Steps[int]:
        check_version(if_version)
        text = self._encode(key, value)
        return self._write(
            c.Set(
                self._scope, key, text, self._writer, if_version=if_version, on_success=on_success
            )
        )

    def _set_many(self, values: Mapping[str, JsonValue]) -> Steps[int]:
        return self._write(c.SetMany(self._scope, self._encode_all(values), self._writer))

    def _advance(self, key: str, value: str | float, on_success: bool) -> Steps[Any]:
        try:
            text = encode(value)
        except (InvalidInput, InvalidType) as error:
            raise located(error, f"`{key}` of {self._scope}") from None
        text = yield c.Advance(self._scope, key, text, self._writer, on_success)
        return decode(text)

    def _history(self, key: str) -> Steps[list[Version[Any]]]:
        steps = yield c.History(self._scope, key)
        return [self._decoded(key, step) for step in steps]

    def _decoded(self, key: str, step: Version[str]) -> Version[Any]:
        value = None if step.value is None else self._decode(key, step.value)
        return msgspec.structs.replace(step, value=value)

    def _rewind(
        self,
        key: str,
        version: int | None,
        run_id: str | None,
        at: datetime | None,
        dry_run: bool,
    ) -> Steps[Version[Any] | None]:
        to = rewind_target(version, run_id, at)
        step = yield c.Rewind(self._scope, key, to, self._writer, dry_run)
        return step and self._decoded(key, step)


def located(error: InvalidInput | InvalidType, where: str) -> InvalidInput | InvalidType:
    """An error about the input that says whose it was."""
    return type(error)(f"{where}: {error.message}", hint=error.hint)


def check_version(if_version: int | None) -> None:
    """Refuse what cannot be a version to compare with."""
    if if_version is None:
        return
    if type(if_version) is not int:
        raise InvalidType(f"if_version must be an integer, not {if_version!r}")
    if if_version < 0:
        raise InvalidInput(f"if_version is {if_version}", hint="0 means: only where absent")


def rewind_target(version: int | None, run_id: str | None, at: datetime | None) -> c.Target:
    """Exactly one of the three, as a target."""
    targets: list[c.Target] = []
    if version is not None:
        targets.append(c.ToVersion(version))
    if run_id is not None:
        targets.append(c.BeforeRun(run_id))
    if at is not None:
        if at.tzinfo is None:
            raise InvalidInput(f"`at` has no time zone: {at.isoformat()}", hint="add tzinfo=UTC")
        targets.append(c.AtTime(at.astimezone(UTC)))
    if len(targets) != 1:
        raise InvalidInput("a rewind goes to one target", hint="give version, run_id or at")
    return targets[0]
