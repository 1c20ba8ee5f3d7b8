"""Values that stay on the worker's own storage: inward goes a reference, outward the value."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from holdfast import command as c
from holdfast.condition import Guarded, Once
from holdfast.entry import Entry, Found, Page
from holdfast.errors import BackendFailed, HoldfastError, NotSupported
from holdfast.scope import StoreScope, TaskScope
from holdfast.spellings import WorkerHooks
from holdfast.store import Store
from holdfast.value import as_reference, decode, encode, reference_in

A = TypeVar("A")


class OffloadStore(Store):
    """A store whose values are kept by a worker-side backend.

    The backend overwrites objects in place. So a staged value stays inline, as does what `advance`
    writes; there is no history of values to show or to go back to; and a write that is refused for
    its version or attempt may already have replaced the object.
    """

    def __init__(self, inner: Store, hooks: WorkerHooks) -> None:
        self._inner = inner
        self._hooks = hooks

    def supports(self, command: type[c.Command[Any]]) -> bool:
        impossible = (c.History, c.Rewind, Once, Guarded)
        return command not in impossible and self._inner.supports(command)

    def execute(self, command: c.Command[A]) -> A:
        if not self.supports(type(command)):
            raise NotSupported(
                f"{self._hooks.name} keeps values where `{type(command).__name__}` cannot be done",
                hint="its objects are overwritten in place, outside of the store: there is nothing "
                "to go back to; use the default backend for history",
            )
        match command:
            case c.Set(on_success=False):
                text = self._outward(command.scope, command.key, command.value)
                return cast(A, self._inner.execute(msgspec.structs.replace(command, value=text)))
            case c.SetMany():
                values = [(k, self._outward(command.scope, k, v)) for k, v in command.values]
                many = msgspec.structs.replace(command, values=tuple(values))
                return cast(A, self._inner.execute(many))
            case c.Advance():
                self._bring_inline(command)
            case c.Get():
                text = self._inner.execute(command)
                return cast(A, text and self._inward(command.scope, text))
            case c.GetEntry():
                entry = self._inner.execute(command)
                return cast(A, entry and self._resolved(command.scope, entry))
            case c.List():
                return cast(A, self._listed(self._inner.execute(command)))
            case c.Delete():
                stored = self._inner.execute(c.Get(command.scope, command.key))
                self._inner.execute(command)
                if stored is not None:
                    self._purge(command.scope, command.key, stored)
                return cast(A, None)
            case c.Clear():
                page = self._inner.execute(c.List(_cleared(command)))
                self._inner.execute(command)
                for found in page.found:
                    self._purge(found.scope, found.entry.key, found.entry.value)
                return cast(A, None)
        return self._inner.execute(command)

    def close(self) -> None:
        self._inner.close()

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _outward(self, scope: StoreScope, key: str, text: str) -> str:
        if not self._hooks.offloads(scope):
            return text
        where = f"{self._hooks.name} could not store `{key}` of {scope}"
        try:
            reference = self._hooks.serialize(scope, key, decode(text))
        except HoldfastError:
            raise
        except Exception as error:
            raise BackendFailed(
                f"{where}: {type(error).__name__}: {error}", hint="the entry is as it was before"
            ) from error
        if not isinstance(reference, str):
            raise BackendFailed(
                f"{where}: the reference is a {type(reference).__name__}, not text",
                hint="a serialize hook returns the reference as a string",
            )
        return as_reference(reference)

    def _bring_inline(self, command: c.Advance) -> None:
        """The server compares what it holds, so the value that stands has to be there."""
        entry = self._inner.execute(c.GetEntry(command.scope, command.key))
        if entry is not None and reference_in(entry.value) is not None:
            text = self._inward(command.scope, entry.value)
            inline = c.Set(
                command.scope, command.key, text, command.writer, if_version=entry.version
            )
            self._inner.execute(inline)
            self._purge(command.scope, command.key, entry.value)

    def _inward(self, scope: StoreScope, text: str) -> str:
        reference = reference_in(text)
        if reference is None:
            return text
        try:
            return encode(self._hooks.deserialize(scope, reference))
        except HoldfastError:
            raise
        except Exception as error:
            raise BackendFailed(
                f"{self._hooks.name} could not read `{reference}` of {scope}: "
                f"{type(error).__name__}: {error}",
                hint="the entry refers to an object that is missing or cannot be reached from here",
            ) from error

    def _resolved(self, scope: StoreScope, entry: Entry[str]) -> Entry[str]:
        return msgspec.structs.replace(entry, value=self._inward(scope, entry.value))

    def _listed(self, page: Page) -> Page:
        found = (Found(at.scope, self._resolved(at.scope, at.entry)) for at in page.found)
        return msgspec.structs.replace(page, found=tuple(found))

    def _purge(self, scope: StoreScope, key: str, stored: str) -> None:
        reference = reference_in(stored)
        if reference is not None:
            self._hooks.purge(scope, key, reference)


def _cleared(command: c.Clear) -> c.Where:
    """Whose entries the command removes."""
    scope = command.scope
    if command.all_map_indices and isinstance(scope, TaskScope):
        return c.TaskFilter(scope.dag_id, scope.run_id, scope.task_id)
    return scope
