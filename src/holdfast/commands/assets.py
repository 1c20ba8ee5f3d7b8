"""Assets and their events."""

from __future__ import annotations

from holdfast.commands.base import Category, Command, ScopeCommand
from holdfast.model.entry import AssetInfo
from holdfast.model.role import Role
from holdfast.model.run import AssetEvent
from holdfast.model.scope import AssetScope
from holdfast.portable.identifier import check_id


class DeclareAsset(Command[AssetInfo], frozen=True):
    """Declare an asset by hand: it is known, and never deactivated.

    A name or URI alone stands for the asset that has it, and for a new one's other part too.
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
    """What a DAG declares, after its file was parsed: exactly these assets (name, URI).

    An asset that no DAG declares any more is deactivated; one that comes back is active again.
    """

    dag_id: str
    assets: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        check_id("dag_id", self.dag_id)
        for name, uri in self.assets:
            AssetScope(name=name, uri=uri)


class ListAssets(Command[tuple[AssetInfo, ...]], frozen=True):
    """Assets, ordered by name."""

    category = Category.READS
    paged = True

    limit: int | None = None
    offset: int = 0


class GetAsset(ScopeCommand[AssetInfo], frozen=True):
    """One asset; UnknownAsset where there is none."""

    category = Category.READS_ENTRIES

    scope: AssetScope


class DeleteAsset(ScopeCommand[None], frozen=True):
    """Forget an asset with its entries and their history."""

    touches_entries = True

    scope: AssetScope


class ListAssetEvents(Command[tuple[AssetEvent, ...]], frozen=True):
    """Events of one asset or of all, newest first."""

    category = Category.READS
    paged = True
    sized = True

    scope: AssetScope | None = None
    limit: int = 100
    offset: int = 0
    max_size: int | None = None
    """Characters of `extra`: the answer ends with the event that exceeds them."""


class AliasAssets(Command[tuple[AssetInfo, ...]], frozen=True):
    """The assets behind an alias: those that tasks have reported under it."""

    category = Category.READS

    alias: str
