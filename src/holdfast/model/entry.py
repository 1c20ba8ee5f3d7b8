"""The values that cross every layer: entries, who wrote them, and pages of them."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeAlias, TypeVar

import msgspec

from holdfast.model.scope import AssetScope, StoreScope, TaskScope

V = TypeVar("V")
"""A value: JSON text between stores, the decoded value where an accessor hands it out."""


class TaskWriter(msgspec.Struct, frozen=True, tag="task", tag_field="kind"):
    """A task instance. With its attempt, a write is refused once that attempt is not the newest."""

    scope: TaskScope
    attempt: int | None = None

    def __str__(self) -> str:
        return str(self.scope)


class WatcherWriter(msgspec.Struct, frozen=True, tag="watcher", tag_field="kind"):
    """The watcher of an asset."""

    def __str__(self) -> str:
        return "watcher"


class ApiWriter(msgspec.Struct, frozen=True, tag="api", tag_field="kind"):
    """A person or tool, through the API, the CLI or a script."""

    user: str

    def __str__(self) -> str:
        return f"api {self.user}"


Writer: TypeAlias = TaskWriter | WatcherWriter | ApiWriter


def signature(writer: Writer) -> Writer:
    """The writer as an entry records it: without the attempt."""
    return TaskWriter(writer.scope) if isinstance(writer, TaskWriter) else writer


class Entry(msgspec.Struct, Generic[V], frozen=True):
    """One key of one scope."""

    key: str
    value: V
    version: int
    updated_at: datetime
    writer: Writer
    expires_at: datetime | None = None
    staged: bool = False
    """Not in effect yet: what the asking attempt has staged, over the version that stands."""


class Version(msgspec.Struct, Generic[V], frozen=True):
    """One step in an asset entry's history."""

    version: int
    value: V | None
    """None where this step deleted the entry."""
    updated_at: datetime
    writer: Writer
    previous: int
    """The version before it; 0 for the key's first."""


class Found(msgspec.Struct, frozen=True):
    """An entry together with whose it is."""

    scope: StoreScope
    entry: Entry[str]


class Page(msgspec.Struct, frozen=True):
    """Some of the entries, ordered by scope and key, and how many there are in all."""

    found: tuple[Found, ...]
    total: int
    more: bool = False
    """Whether it ended before its limit, because its values are large."""


class AssetInfo(msgspec.Struct, frozen=True):
    """An asset as the store knows it."""

    asset_id: int
    name: str
    uri: str
    by_hand: bool
    dags: tuple[str, ...]
    orphaned_at: datetime | None

    @property
    def scope(self) -> AssetScope:
        return AssetScope(asset_id=self.asset_id, name=self.name, uri=self.uri)


class Expired(msgspec.Struct, frozen=True):
    """A row that cleanup would remove. `id` and `expires_at` say where a listing goes on."""

    id: int
    scope: TaskScope
    key: str
    expires_at: datetime


class BackendCleanup(msgspec.Struct, frozen=True):
    """What came of asking a custom backend to clean up."""

    backend: str
    called: bool
    """Whether the backend has a cleanup of its own, which was called unless it is a dry run."""
