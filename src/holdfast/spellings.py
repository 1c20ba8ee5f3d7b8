"""One name for the hooks of worker-side backends, whichever of their spellings a class uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.backend import BaseStoreBackend
from holdfast.scope import AssetScope, StoreScope, TaskScope
from holdfast.value import JsonValue, decode, encode


class Spelling(NamedTuple):
    """How one generation of the interface names its hooks. `{}` stands for task or asset."""

    serialize: str
    deserialize: str
    purge: str | None
    as_text: bool
    """The hooks take and return JSON text instead of the value."""
    task: Callable[[TaskScope], dict[str, Any]]
    asset: Callable[[AssetScope], dict[str, Any]]
    """Whose value it is, as the hook's argument."""


def _asset_ref(scope: AssetScope) -> str:
    return scope.name or scope.uri or str(scope.asset_id)


SPELLINGS = (
    Spelling(
        "serialize_{}_store_to_ref",
        "deserialize_{}_store_from_ref",
        None,
        False,
        lambda scope: {"ti_id": str(scope.ti_id)},
        lambda scope: {"asset_ref": _asset_ref(scope)},
    ),
    Spelling(
        "serialize_{}_state_store_to_ref",
        "deserialize_{}_state_store_from_ref",
        None,
        False,
        lambda scope: {"scope": scope},
        lambda scope: {"scope": scope},
    ),
    Spelling(
        "serialize_{}_state_to_ref",
        "deserialize_{}_state_from_ref",
        None,
        True,
        lambda scope: {"ti_id": str(scope.ti_id)},
        lambda scope: {"asset_ref": _asset_ref(scope)},
    ),
    Spelling(
        "serialize_{}_state_value",
        "deserialize_{}_state_value",
        "purge_{}_state",
        True,
        lambda scope: {"ti_id": str(scope.ti_id)},
        lambda scope: {"asset_name": _asset_ref(scope)},
    ),
)


class WorkerHooks:
    """The hooks of a backend, by the one name that the product uses.

    A class that overrides none for a kind of scope leaves the values of that kind where they are.
    """

    def __init__(self, backend: BaseStoreBackend) -> None:
        self._backend = backend
        self.name = type(backend).__name__
        self._spelling = {kind: self._find(kind) for kind in ("task", "asset")}

    def _find(self, kind: str) -> Spelling | None:
        for spelling in SPELLINGS:
            name = spelling.serialize.format(kind)
            own = getattr(type(self._backend), name, None)
            if own is not None and own is not getattr(BaseStoreBackend, name, None):
                return spelling
        return None

    def offloads(self, scope: StoreScope) -> bool:
        """Whether values of this kind of scope go to the backend."""
        return self._spelling[_kind(scope)] is not None

    def serialize(self, scope: StoreScope, key: str, value: JsonValue) -> str:
        """Put the value into storage; the reference to it."""
        spelling = self._spelling[_kind(scope)]
        assert spelling is not None
        owner = spelling.task(scope) if isinstance(scope, TaskScope) else spelling.asset(scope)
        hook = getattr(self._backend, spelling.serialize.format(_kind(scope)))
        given = encode(value) if spelling.as_text else value
        return hook(value=given, key=key, **owner)  # type: ignore[no-any-return]

    def deserialize(self, scope: StoreScope, stored: str) -> Any:
        """The value behind a reference."""
        spelling = self._spelling[_kind(scope)]
        assert spelling is not None
        value = getattr(self._backend, spelling.deserialize.format(_kind(scope)))(stored)
        return decode(value) if spelling.as_text else value

    def purge(self, scope: StoreScope, key: str, stored: str) -> None:
        """Remove the object behind a reference whose entry is gone."""
        spelling = self._spelling[_kind(scope)]
        assert spelling is not None
        if spelling.purge is not None:
            if not stored:
                return  # it was never told; the next `set` overwrites
            getattr(self._backend, spelling.purge.format(_kind(scope)))(stored)
            return
        try:
            self._backend.delete(scope, key)
        except NotImplementedError:
            # Classes of the drafts may have nothing but hooks; the next `set` overwrites.
            return


def _kind(scope: StoreScope) -> str:
    return "task" if isinstance(scope, TaskScope) else "asset"
