"""Asset stores of a task or watcher, by asset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.accessor.asset_store import AssetStore
from holdfast.accessor.binding import Rules
from holdfast.errors import InvalidInput, InvalidType, UndeclaredAsset
from holdfast.model.entry import Writer
from holdfast.model.scope import AssetScope
from holdfast.sdk.asset import Asset, AssetAlias, AssetRef, plain_uri
from holdfast.store import Store


class AssetStores:
    """The stores of the assets that a task or watcher, their owner, declares.

    `stores[asset]` is the store of an asset; with exactly one asset, `get`, `set` and the other
    methods of a store work here, too. `aliases` are the aliases among the owner's inlets, whose
    assets are among the scopes.
    """

    def __init__(
        self,
        store: Store,
        owner: str,
        scopes: Iterable[AssetScope],
        writer: Writer,
        rules: Rules,
        aliases: Sequence[str] = (),
    ) -> None:
        self._owner = owner
        self._aliases = aliases
        self._scopes = distinct(scopes)
        self._stores = [AssetStore(store, scope, writer, rules) for scope in self._scopes]

    def __getitem__(self, key: Asset | AssetRef) -> AssetStore:
        if not isinstance(key, Asset | AssetRef):
            hint = f"Asset.ref(name={key!r})" if isinstance(key, str) else "use the asset itself"
            raise InvalidType(
                f"the asset store of {self._owner} is looked up by asset, not by "
                f"{type(key).__name__} ({key!r})",
                hint="an alias may stand for several assets"
                if isinstance(key, AssetAlias)
                else hint,
            )
        for scope, store in zip(self._scopes, self._stores, strict=True):
            if same(scope, key.name, key.uri):
                return store
        raise UndeclaredAsset(
            f"{self._owner} does not declare asset `{key.name or key.uri}`",
            hint=f"add it to the task's inlets or outlets; it declares {self._names()}"
            if self._scopes
            else self._why_empty(),
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(AssetStore, name):
            raise AttributeError(f"the asset store has no {name!r}", name=name, obj=self)
        return getattr(self.only(f".{name}(…)"), name)

    def only(self, use: str = "") -> AssetStore:
        """Return the store of the only asset. Raise InvalidInput if there is none or several.

        `use` is the use of one of them that the hint suggests.
        """
        if not self._stores:
            raise InvalidInput(f"{self._owner} has no asset yet", hint=self._why_empty())
        if len(self._stores) != 1:
            raise InvalidInput(
                f"{self._owner} declares several assets: {self._names()}",
                hint=f'choose one: context["asset_store"][my_asset]{use}',
            )
        return self._stores[0]

    def __len__(self) -> int:
        return len(self._stores)

    def __repr__(self) -> str:
        return f"<asset stores of {self._owner}: {self._names()}>"

    def _names(self) -> str:
        return ", ".join(f"`{scope.name or scope.uri}`" for scope in self._scopes)

    def _why_empty(self) -> str:
        aliases = ", ".join(f"`{alias}`" for alias in self._aliases)
        return f"no task has added an asset to alias {aliases} yet"


def distinct(scopes: Iterable[AssetScope]) -> list[AssetScope]:
    """Return each asset once. Those known by both name and URI come before those with only one."""
    found: list[AssetScope] = []
    for scope in sorted(scopes, key=lambda scope: scope.name is None or scope.uri is None):
        if not any(same(known, scope.name, scope.uri) for known in found):
            found.append(scope)
    return found


def same(scope: AssetScope, name: str | None, uri: str | None) -> bool:
    """Return whether a name or URI is that of an asset.

    The name takes precedence, unless it is just the URI, as that of `Asset(uri=…)`.
    """
    if scope.name is not None and name is not None:
        if scope.name == name:
            return True
        if plain_uri(name) != uri:
            return False
    return scope.uri is not None and scope.uri == uri
