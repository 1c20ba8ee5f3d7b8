"""Uniform access to the hooks of worker-side backends, whichever spelling a class uses."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.errors import NotSupported
from holdfast.model.scope import StoreScope, TaskScope
from holdfast.model.value import JsonValue, decode, encode
from holdfast.stores.backend.base import BaseStoreBackend


class Spelling(NamedTuple):
    """Hook names of one generation of the interface. `{}` stands for task or asset."""

    serialize: str
    deserialize: str
    purge: str | None
    as_text: bool
    """Whether the hooks take and return JSON text instead of the value."""
    asset: str = ""
    """The name of the argument that identifies an asset; empty if the hooks take the scope."""

    def owner(self, scope: StoreScope) -> dict[str, Any]:
        """Return the keyword argument that identifies the owner of the value."""
        if not self.asset:
            return {"scope": scope}
        if isinstance(scope, TaskScope):
            return {"ti_id": str(scope.ti_id)}
        return {self.asset: scope.name or scope.uri or str(scope.asset_id)}


SPELLINGS = (
    Spelling(
        "serialize_{}_store_to_ref", "deserialize_{}_store_from_ref", None, False, "asset_ref"
    ),
    Spelling("serialize_{}_state_store_to_ref", "deserialize_{}_state_store_from_ref", None, False),
    Spelling("serialize_{}_state_to_ref", "deserialize_{}_state_from_ref", None, True, "asset_ref"),
    Spelling(
        *("serialize_{}_state_value", "deserialize_{}_state_value", "purge_{}_state"),
        as_text=True,
        asset="asset_name",
    ),
)


class WorkerHooks:
    """Hooks of a backend under the names that the product uses.

    A class that overrides no hook for a kind of scope does not offload the values of that kind.
    """

    def __init__(self, backend: BaseStoreBackend) -> None:
        self._backend = backend
        self.name = type(backend).__name__
        self._spelling = {kind: self._find(kind) for kind in ("task", "asset")}

    def _find(self, kind: str) -> Spelling:
        """Return the first spelling of which the class overrides a hook."""
        for spelling in SPELLINGS:
            if self._has_own(spelling.serialize, kind) or self._has_own(spelling.deserialize, kind):
                return spelling
        return SPELLINGS[0]

    def _has_own(self, hook: str, kind: str) -> bool:
        """Return whether the class overrides this hook instead of inheriting it from the base."""
        name = hook.format(kind)
        return getattr(type(self._backend), name) is not getattr(BaseStoreBackend, name)

    def offloads(self, scope: StoreScope) -> bool:
        """Return whether values of this kind of scope are offloaded."""
        kind = _kind(scope)
        return self._has_own(self._spelling[kind].serialize, kind)

    @property
    def clears(self) -> bool:
        """Whether `clear` may be called; False if the class has a purge hook, used instead."""
        purges = any(
            spelling.purge and self._has_own(spelling.purge, kind)
            for kind, spelling in self._spelling.items()
        )
        return callable(self._backend.clear) and not purges

    def serialize(self, scope: StoreScope, key: str, value: JsonValue) -> str:
        """Write the value to storage and return its reference."""
        spelling = self._spelling[_kind(scope)]
        hook = getattr(self._backend, spelling.serialize.format(_kind(scope)))
        given = encode(value) if spelling.as_text else value
        return hook(value=given, key=key, **spelling.owner(scope))  # type: ignore[no-any-return]

    def deserialize(self, scope: StoreScope, stored: str) -> Any:
        """Return the value behind a reference."""
        spelling = self._spelling[_kind(scope)]
        value = getattr(self._backend, spelling.deserialize.format(_kind(scope)))(stored)
        return decode(value) if spelling.as_text else value

    def purge(self, scope: StoreScope, key: str, stored: str) -> None:
        """Delete the object of a deleted entry. Raise NotSupported if the class cannot do that."""
        kind = _kind(scope)
        hook = self._spelling[kind].purge
        name = "delete"
        given: tuple[Any, ...] = (scope, key)
        if hook is not None and self._has_own(hook, kind):
            if not stored:
                return  # the reference was never reported; the next `set` overwrites
            name, given = hook.format(kind), (stored,)
        method = getattr(self._backend, name)
        missing = NotSupported(
            f"{self.name} does not implement {name}(), so its objects stay in storage",
            hint=f"implement {self.name}.{name}(); until then they wait in the purge queue",
        )
        if method is None:
            raise missing
        try:
            method(*given)
        except NotImplementedError:
            raise missing from None

    def clear(self, scope: StoreScope, *, all_map_indices: bool) -> bool:
        """Delete every object of an emptied scope. Return False if the class cannot do that."""
        every: dict[str, Any] = {"all_map_indices": True} if all_map_indices else {}
        try:
            self._backend.clear(scope, **every)
        except NotImplementedError:
            return False
        return True


def _kind(scope: StoreScope) -> str:
    return "task" if isinstance(scope, TaskScope) else "asset"
