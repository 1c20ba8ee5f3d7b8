"""The base class of the task store and the asset store.

An operation is written once, as a generator that yields commands and is sent their answers; `get`
and `aget`, `set` and `aset` differ only in the entry point of the store that they use.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Generic, Self, TypeVar

import msgspec

from holdfast import commands as c
from holdfast.accessor.binding import Binding, Rules, S
from holdfast.errors import BackendFailed, InvalidInput, InvalidType
from holdfast.model.entry import Entry, TaskWriter, Writer
from holdfast.model.value import JsonValue, decode_entry, encode, fits, reference_in, size_warning
from holdfast.portable.identifier import one_line
from holdfast.store import Steps, Store, arun, run
from holdfast.stores.offload.reference_store import ReferenceStore, entries_of

A = TypeVar("A")

log = logging.getLogger("holdfast")


class Accessor(Generic[S]):
    """The entries of one scope, as one writer sees and changes them."""

    def __init__(self, store: Store, scope: S, writer: Writer, rules: Rules | None = None) -> None:
        self._store = store
        self._scope = scope
        self._writer = writer
        self._reader = writer if isinstance(writer, TaskWriter) else None
        self._rules = rules or Rules()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._scope}>"

    @property
    def binding(self) -> Binding[S]:
        """The store, scope, writer and rules of this accessor, for callers of other commands."""
        return Binding(entries_of(self._store), self._scope, self._writer, self._rules)

    def inline(self) -> Self:
        """Return an accessor of the same entries that does not offload values to a worker-side
        backend."""
        return type(self)(*self.binding)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value, or the default where there is no entry."""
        return run(self._store, self._get(key, default))

    async def aget(self, key: str, default: Any = None) -> Any:
        return await arun(self._store, self._get(key, default))

    def entry(self, key: str) -> Entry[Any] | None:
        """Return the value with its version, times and writer; None where there is no entry."""
        return run(self._store, self._entry(key))

    async def aentry(self, key: str) -> Entry[Any] | None:
        return await arun(self._store, self._entry(key))

    def keys(self) -> list[str]:
        """Return every key, in order."""
        return run(entries_of(self._store), self._keys())

    async def akeys(self) -> list[str]:
        return await arun(entries_of(self._store), self._keys())

    def items(self) -> list[tuple[str, Any]]:
        """Return every key with its value, in order of keys."""
        return run(self._store, self._items())

    async def aitems(self) -> list[tuple[str, Any]]:
        return await arun(self._store, self._items())

    def delete(self, key: str) -> None:
        """Delete the entry; does nothing where there is none."""
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
                f"`{key}` of {self._scope} is offloaded to {one_line(reference)}",
                hint="set [workers] state_backend here to the backend that wrote the value",
            )
        return decode_entry(text, f"`{key}` of {self._scope}")

    def _encode(self, key: str, value: JsonValue) -> str:
        try:
            text = encode(value)
        except (InvalidInput, InvalidType) as error:
            raise located(error, f"`{key}` of {self._scope}") from None
        any_size = isinstance(self._store, ReferenceStore)
        if not any_size and not fits(text, self._rules.max_value_bytes):
            # A running task is not interrupted for the size of a value.
            limit = self._rules.max_value_bytes
            log.warning("%s", size_warning(text, limit, f"`{key}` of {self._scope}"))
        return text

    def _encode_all(self, values: Mapping[str, JsonValue]) -> tuple[tuple[str, str], ...]:
        if not isinstance(values, Mapping):
            raise InvalidType(f"set_many takes a mapping, not {type(values).__name__}")
        return tuple((key, self._encode(key, value)) for key, value in values.items())


def located(error: InvalidInput | InvalidType, where: str) -> InvalidInput | InvalidType:
    """Return an error about the input whose message names the entry."""
    return type(error)(f"{where}: {error.message}", hint=error.hint)


def check_version(if_version: int | None) -> None:
    """Raise an error where `if_version` cannot be a version to compare with."""
    if if_version is None:
        return
    if type(if_version) is not int:
        raise InvalidType(f"if_version must be an integer, not {if_version!r}")
    if if_version < 0:
        raise InvalidInput(
            f"if_version is {if_version}", hint="0 means that the key must be absent"
        )
