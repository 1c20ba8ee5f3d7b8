"""Assets and their events."""

from __future__ import annotations

from operator import attrgetter

from msgspec.structs import force_setattr

from holdfast.commands.base import Category, Command, ScopeCommand
from holdfast.model.entry import ApiWriter, AssetInfo
from holdfast.model.role import Role
from holdfast.model.run import AssetEvent
from holdfast.model.scope import AssetScope
from holdfast.model.value import check_json_object
from holdfast.portable.identifier import check_id


class DeclareAsset(Command[AssetInfo], frozen=True):
    """Declare an asset by hand: it is registered, and never deactivated.

    A name or URI alone identifies the asset that has it; for a new asset it is used as both.
    """

    role = Role.EDITOR

    name: str | None = None
    uri: str | None = None

    def __post_init__(self) -> None:
        AssetScope(name=self.name, uri=self.uri)

    @property
    def declared(self) -> tuple[str, str]:
        """Name and URI of the asset, if it is new."""
        return self.name or self.uri or "", self.uri or self.name or ""


class DeclareDagAssets(Command[None], frozen=True):
    """Set the assets (name, URI) that a DAG declares, after its file was parsed: exactly these.

    An asset that no DAG declares any more is deactivated; it is active again once one does.
    """

    dag_id: str
    assets: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        check_id("dag_id", self.dag_id)
        for name, uri in self.assets:
            AssetScope(name=name, uri=uri)


class AssetChanges(Command[tuple[int, int, int]], frozen=True):
    """Return numbers that differ after each event, and after each new or deleted asset."""

    category = Category.READS


class ListAssets(Command[tuple[AssetInfo, ...]], frozen=True):
    """List assets, ordered by name."""

    category = Category.READS
    paged = True
    identity = attrgetter("asset_id")

    limit: int | None = None
    offset: int = 0


class GetAsset(ScopeCommand[AssetInfo], frozen=True):
    """Return one asset. Raises UnknownAsset where there is none."""

    category = Category.READS_ENTRIES

    scope: AssetScope


class DeleteAsset(ScopeCommand[None], frozen=True):
    """Delete an asset with its entries and their history."""

    touches_entries = True

    scope: AssetScope


class EmitAssetEvent(ScopeCommand[AssetEvent], frozen=True, kw_only=True):
    """Add an event to an asset, on behalf of a program that Holdfast did not start; return it.

    With a `key` that an event of the asset has, return that event, and add none. Raises
    UnknownAsset where there is no such asset, and AssetInactive where no DAG declares it any more.
    """

    role = Role.EDITOR

    scope: AssetScope
    writer: ApiWriter
    extra: str = "{}"
    """A JSON object."""
    key: str | None = None

    def __post_init__(self) -> None:
        check_json_object(f"extra of the event of {self.scope}", self.extra)
        if self.key is not None:
            force_setattr(self, "key", check_id("key of an event", self.key))

    @property
    def repeatable(self) -> bool:
        return self.key is not None


class ListAssetEvents(Command[tuple[AssetEvent, ...]], frozen=True):
    """List events of one asset or of all, newest first."""

    category = Category.READS
    paged = True
    sized = True
    measured = attrgetter("extra")
    identity = attrgetter("asset", "number")

    scope: AssetScope | None = None
    limit: int = 100
    offset: int = 0
    max_size: int | None = None
    """Limit in characters of `extra`: the answer ends with the event that exceeds it."""


class AliasAssets(Command[tuple[AssetInfo, ...]], frozen=True):
    """Return the assets behind an alias: those that tasks have reported under it."""

    category = Category.READS

    alias: str
