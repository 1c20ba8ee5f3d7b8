"""Buffer for an asset's writes that are to be executed together."""

from __future__ import annotations

from datetime import UTC, datetime
from threading import RLock
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from holdfast import commands as c
from holdfast.commands import AssetWrite, Guarded, Once
from holdfast.errors import NotSupported
from holdfast.model.entry import Entry, Found, Page
from holdfast.model.scope import AssetScope
from holdfast.model.staged import overlaid
from holdfast.model.value import larger
from holdfast.store import Store, WrapperStore
from holdfast.stores import refusals

A = TypeVar("A")
KeyWrite: TypeAlias = c.Set | c.Advance | c.Delete


class BufferedStore(WrapperStore):
    """Store of one asset that holds back its writer's writes until they are taken.

    The writer reads its own writes: a buffered entry is marked as staged, on top of the stored
    version. Of several writes to a key the last is kept, with the condition of the first.
    """

    def __init__(self, inner: Store, scope: AssetScope) -> None:
        super().__init__(inner)
        self._scope = scope
        self._lock = RLock()
        self._cleared: c.Clear | None = None
        self._writes: dict[str, KeyWrite] = {}

    def take(self) -> tuple[AssetWrite, ...]:
        """Return the buffered writes in the order of their execution, and empty the buffer."""
        with self._lock:
            cleared = (self._cleared,) if self._cleared else ()
            writes = (*cleared, *self._writes.values())
            self._cleared, self._writes = None, {}
            return writes

    def supports(self, command: type[c.Command[Any]]) -> bool:
        return command not in (c.Rewind, Once, Guarded) and super().supports(command)

    def execute(self, command: c.Command[A]) -> A:
        with self._lock:
            return cast(A, self._execute(command))

    def _execute(self, command: c.Command[Any]) -> Any:
        match command:
            case c.Get():
                entry = self._entry(command.key)
                return entry.value if entry else None
            case c.GetEntry():
                return self._entry(command.key)
            case c.List():
                return self._list(command)
            case c.Set():
                return self._set(command)
            case c.SetMany():
                for key, value in command.values:
                    self._set(c.Set(command.scope, key, value, command.writer))
                return 0
            case c.Advance():
                return self._advance(command)
            case c.Delete():
                self._writes[command.key] = command
                return None
            case c.Clear():
                self._cleared, self._writes = command, {}
                return None
            case c.Rewind():
                raise NotSupported(
                    f"a watcher of {self._scope} cannot rewind an entry",
                    hint="set the value, or rewind it with `holdfast state-store rewind`",
                )
        return self.inner.execute(command)

    def _standing(self, key: str) -> Entry[str] | None:
        """Return the entry as it would be without the buffered write to this key."""
        return None if self._cleared else self.inner.execute(c.GetEntry(self._scope, key))

    def _entry(self, key: str) -> Entry[str] | None:
        return self._over(key, self._standing(key))

    def _over(self, key: str, standing: Entry[str] | None) -> Entry[str] | None:
        """Return the entry as it will be once the buffered write has been executed."""
        write = self._writes.get(key)
        if write is None:
            return standing
        if isinstance(write, c.Delete):
            return None
        return overlaid(
            *(standing, key, write.value, datetime.now(UTC), write.writer),
            advances=isinstance(write, c.Advance),
        )

    def _list(self, command: c.List) -> Page:
        found: dict[str, Entry[str]] = {}
        if not self._cleared:
            page = self.inner.execute(command)
            found = {one.entry.key: one.entry for one in page.found}
        for key in self._writes:
            if key.startswith(command.prefix):
                entry = self._over(key, found.pop(key, None))
                if entry is not None:
                    found[key] = entry
        listed = tuple(Found(self._scope, found[key]) for key in sorted(found))
        return Page(listed, len(listed))

    def _set(self, command: c.Set) -> int:
        earlier = self._writes.get(command.key)
        version = 0
        if command.if_version is not None:
            entry = self._entry(command.key)
            version = entry.version if entry else 0
            if command.if_version != version:
                raise refusals.conflict(self._scope, command.key, command.if_version, version)
        if isinstance(earlier, c.Delete):
            command = msgspec.structs.replace(command, if_version=None)
        elif isinstance(earlier, c.Set) and command.if_version is None:
            command = msgspec.structs.replace(command, if_version=earlier.if_version)
        self._writes[command.key] = command
        return version

    def _advance(self, command: c.Advance) -> str:
        where = f"`{command.key}` of {self._scope}"
        earlier = self._writes.get(command.key)
        entry = self._entry(command.key)
        value = larger(entry.value if entry else None, command.value, where)
        if isinstance(earlier, c.Set):
            self._writes[command.key] = msgspec.structs.replace(earlier, value=value)
        elif isinstance(earlier, c.Delete):
            self._writes[command.key] = c.Set(self._scope, command.key, value, command.writer)
        else:
            before = earlier.value if earlier else None
            bound = larger(before, command.value, where)
            self._writes[command.key] = msgspec.structs.replace(command, value=bound)
        return value
