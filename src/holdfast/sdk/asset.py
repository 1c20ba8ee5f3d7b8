"""Assets: datasets that tasks read and write, and that other DAGs wait for."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast.errors import InvalidDag, InvalidInput
from holdfast.model.dag import AliasSpec, AllOf, AnyOf, AssetRefSpec, AssetSpec, Condition
from holdfast.model.scope import AssetScope
from holdfast.portable.identifier import MAX_ASSET_LENGTH, check_id
from holdfast.sdk.triggers import BaseEventTrigger


class BaseAsset(ABC):
    """Base class of what a DAG can be scheduled on. `&` waits for both, `|` for one of them."""

    @property
    @abstractmethod
    def spec(self) -> Condition:
        """The asset or condition as a serializable value."""

    @property
    def assets(self) -> Iterator[Asset]:
        """The `Asset` objects that it contains."""
        yield from ()

    def __and__(self, other: BaseAsset) -> AssetAll:
        return AssetAll(self, other) if isinstance(other, BaseAsset) else NotImplemented

    def __or__(self, other: BaseAsset) -> AssetAny:
        return AssetAny(self, other) if isinstance(other, BaseAsset) else NotImplemented


@dataclass(frozen=True)
class AssetWatcher:
    """Runs a trigger that watches for changes of an asset made elsewhere."""

    name: str
    trigger: BaseEventTrigger

    def __post_init__(self) -> None:
        check_id("the name of a watcher", self.name)
        if not isinstance(self.trigger, BaseEventTrigger):
            raise InvalidDag(
                f"the trigger of watcher `{self.name}` is a {type(self.trigger).__name__}",
                hint="a watcher's trigger is an instance of a subclass of BaseEventTrigger",
            )


@dataclass(frozen=True, init=False)
class Asset(BaseAsset, os.PathLike[str]):
    """A dataset with a name and a URI; if only one is given, it is used for both."""

    name: str
    uri: str
    group: str = field(compare=False)
    extra: dict[str, Any] = field(compare=False)
    watchers: list[AssetWatcher] = field(compare=False, repr=False)

    def __init__(
        self,
        name: str | None = None,
        uri: str | os.PathLike[str] | None = None,
        *,
        group: str = "asset",
        extra: dict[str, Any] | None = None,
        watchers: Sequence[AssetWatcher] = (),
    ) -> None:
        if name is None and uri is None:
            raise InvalidDag("Asset() has neither name nor URI", hint='Asset("orders")')
        location = plain_uri(str(uri)) if uri is not None else name
        for attribute, value in (
            ("name", name if name is not None else str(uri)),
            ("uri", location),
            ("group", group),
            ("extra", extra or {}),
            ("watchers", list(watchers)),
        ):
            object.__setattr__(self, attribute, value)
        AssetScope(name=self.name, uri=self.uri)

    @staticmethod
    def ref(*, name: str | None = None, uri: str | None = None) -> AssetRef:
        """Return a reference to an asset of another DAG by its name or URI alone."""
        return AssetRef(name, None if uri is None else plain_uri(uri))

    def __fspath__(self) -> str:
        return self.uri

    @property
    def spec(self) -> AssetSpec:
        return AssetSpec(self.name, self.uri)

    @property
    def assets(self) -> Iterator[Asset]:
        yield self


@dataclass(frozen=True)
class AssetRef(BaseAsset):
    """A reference, by name or URI, to an asset that is declared elsewhere."""

    name: str | None = None
    uri: str | None = None

    def __post_init__(self) -> None:
        if (self.name is None) == (self.uri is None):
            raise InvalidInput("Asset.ref() takes either name= or uri=")
        AssetScope(name=self.name, uri=self.uri)

    @property
    def spec(self) -> AssetRefSpec:
        return AssetRefSpec(self.name, self.uri)


@dataclass(frozen=True)
class AssetAlias(BaseAsset):
    """A name to which tasks add assets while they run."""

    name: str
    group: str = field(default="asset", kw_only=True, compare=False)

    def __post_init__(self) -> None:
        check_id("the name of an alias", self.name, MAX_ASSET_LENGTH)

    @property
    def spec(self) -> AliasSpec:
        return AliasSpec(self.name)


@dataclass(frozen=True, init=False, repr=False)
class AssetCondition(BaseAsset):
    """A condition on several assets."""

    objects: tuple[BaseAsset, ...]

    def __init__(self, *objects: BaseAsset) -> None:
        for one in objects:
            if not isinstance(one, BaseAsset):
                raise InvalidDag(
                    f"{one!r} is not an asset", hint="combine assets, aliases and refs"
                )
        object.__setattr__(self, "objects", objects)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.objects))})"

    @property
    def assets(self) -> Iterator[Asset]:
        for one in self.objects:
            yield from one.assets


class AssetAll(AssetCondition):
    """The condition that each of the assets has an event."""

    def __and__(self, other: BaseAsset) -> AssetAll:
        return AssetAll(*self.objects, other) if isinstance(other, BaseAsset) else NotImplemented

    @property
    def spec(self) -> AllOf:
        return AllOf(tuple(one.spec for one in self.objects))


class AssetAny(AssetCondition):
    """The condition that any of the assets has an event."""

    def __or__(self, other: BaseAsset) -> AssetAny:
        return AssetAny(*self.objects, other) if isinstance(other, BaseAsset) else NotImplemented

    @property
    def spec(self) -> AnyOf:
        return AnyOf(tuple(one.spec for one in self.objects))


@dataclass(frozen=True)
class Metadata:
    """Metadata of an asset that a task has written: `yield Metadata(asset, {"rows": 3})`."""

    asset: Asset
    extra: dict[str, Any] = field(default_factory=dict)
    alias: AssetAlias | None = None


def plain_uri(uri: str) -> str:
    """Return the URI in normal form, so that two spellings of one URI are one asset.

    Warn about a password, and leave it and the user out.
    """
    parts = urlsplit(uri)
    scheme = parts.scheme.lower()
    if not scheme or scheme.startswith("x-"):
        return uri
    place = parts.netloc
    if parts.password:
        warnings.warn(
            f"the URI of an asset on {parts.hostname} contains a password; user and password "
            "are removed",
            UserWarning,
            stacklevel=3,
        )
        place = place.rpartition("@")[2]
    query = urlencode(sorted(parse_qsl(parts.query)))
    return urlunsplit((scheme, place, parts.path.rstrip("/") or "/", query, ""))
