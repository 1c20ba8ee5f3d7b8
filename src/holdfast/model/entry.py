"""Values that cross every layer: entries, their writers, and pages of entries."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeAlias, TypeVar

import msgspec

from holdfast.model.scope import AssetScope, StoreScope, TaskScope

V = TypeVar("V")
"""A value: JSON text between stores, decoded in what an accessor returns."""


class TaskWriter(msgspec.Struct, frozen=True, tag="task", tag_field="kind"):
    """A task instance. With an attempt, a write is rejected once that attempt is not the newest."""

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
    """Return the writer as an entry records it: without the attempt."""
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
    """Not in effect yet: the value that the reading attempt has staged over the current version."""


class Version(msgspec.Struct, Generic[V], frozen=True):
    """One version in an asset entry's history."""

    version: int
    value: V | None
    """None where this version deleted the entry."""
    updated_at: datetime
    writer: Writer
    previous: int
    """The previous version; 0 for the key's first."""


class Found(msgspec.Struct, frozen=True):
    """An entry together with its scope."""

    scope: StoreScope
    entry: Entry[str]


class Page(msgspec.Struct, frozen=True):
    """A page of entries, ordered by scope and key, and the total number of entries."""

    found: tuple[Found, ...]
    total: int
    more: bool = False
    """Whether the page ended before its limit, because its values are large."""


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
    """A row that cleanup would remove. `id` and `expires_at` are the cursor of a listing."""

    id: int
    scope: TaskScope
    key: str
    expires_at: datetime


class BackendCleanup(msgspec.Struct, frozen=True):
    """The result of the cleanup of a custom backend."""

    backend: str
    called: bool
    """Whether the backend has a cleanup of its own, which was called unless this is a dry run."""
