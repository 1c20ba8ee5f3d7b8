"""Built-in worker-side backend: values as content-addressed objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NoReturn

from holdfast.errors import InvalidSettings, NotSupported
from holdfast.model.object_url import SCHEMES, parse
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import JsonValue, decode, encode, too_large_to_offload
from holdfast.settings import ObjectStore, load
from holdfast.stores.backend.base import BaseStoreBackend
from holdfast.stores.offload.objects import naming
from holdfast.stores.offload.objects.compression import LARGEST, SUFFIXES, zstd
from holdfast.stores.offload.objects.failure import translated
from holdfast.stores.offload.objects.objects import Objects, Stored, elsewhere
from holdfast.stores.offload.objects.opening import check_installed

_BEGINNINGS = tuple(f"{scheme}://" for scheme in SCHEMES)


class ObjectStoreBackend(BaseStoreBackend):
    """Stores values in S3, Google Cloud Storage, Azure, a directory, or memory.

    A reference is the URL of the object: it depends on scope, key and content alone, and its last
    part is the digest of the content, which is verified on every read. So nothing is ever
    overwritten, and a stored reference stays valid until its object is deleted.

    The compression of an object follows from its name, so existing objects stay readable when that
    setting changes; they also do when the URL changes, where the old one is among `former_urls`.
    `memory://` lives as long as the process. Objects in the cloud carry their owner as metadata;
    local files have none.
    """

    def __init__(self, settings: ObjectStore | None = None) -> None:
        self._settings = load().object_store if settings is None else settings
        if not self._settings.url:
            raise InvalidSettings(
                "object_store.url is empty, and ObjectStoreBackend needs it",
                hint='set it in holdfast.toml: [object_store] url = "s3://bucket/prefix"',
            )
        check_installed()
        if self._settings.compression == "zstd":
            zstd()
        former = [parse(url) for url in self._settings.former_urls]
        self._max_bytes = self._settings.max_value_bytes
        self._objects = Objects(parse(self._settings.url), former, self._max_bytes)
        self._suffix = SUFFIXES[self._settings.compression]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._settings,)

    def reference_for(self, scope: StoreScope, key: str, content: bytes) -> str | None:
        """Return the reference for this content, whose object need not exist yet; None if the
        content is below the threshold and stays inline."""
        return self._reference_for(naming.folder(scope, key), content)

    def is_reference_of(self, reference: str, scope: StoreScope, key: str) -> bool:
        """Return whether the reference can be that of an object of this key, whatever its content.
        Raise BackendFailed if it can, but only below a URL that is not configured."""
        directory, folder = reference.rpartition("/")[0], f"/{naming.folder(scope, key)}"
        root = directory.removesuffix(folder)
        if root == directory:
            return False
        if root not in map(str, self._objects.roots):
            raise elsewhere(reference, root)
        return True

    def put(self, reference: str, scope: StoreScope, key: str, content: bytes) -> None:
        """Write the object of a reference that `reference_for` returned."""
        self._objects.put(reference, content, naming.metadata(naming.owner(scope), key))

    def fetch(self, reference: str) -> bytes:
        """Return the content. Raise ObjectMissing if the object is gone, and BackendFailed if it
        has been changed or cannot be read."""
        return self._objects.fetch(reference)

    def remove(self, references: Sequence[str]) -> dict[str, str]:
        """Delete objects; return reasons for those that remain. Absent ones count as deleted."""
        return self._objects.remove(references)

    def list_objects(self, prefix: str = "", *, foreign: bool = False) -> Iterator[Stored]:
        """Yield the objects under a prefix that `prefixes` returned, or all, in the order in which
        the storage lists them, with one page at a time in memory. Files that are not named like
        ours are left out, unless `foreign` is set."""
        with translated("list", self._objects.reference(prefix)):
            yield from self._objects.stored(prefix, foreign)

    def is_there(self, reference: str) -> bool:
        """Return whether the object of a reference exists."""
        with translated("check", reference):
            return (
                self._objects.reaches(reference) and self._objects.metadata(reference) is not None
            )

    def whose(self, reference: str) -> tuple[StoreScope, str] | None:
        """Return the scope and the key that an object below the URL belongs to, from its path, or
        from its metadata where the names are too long for the path. Return None if neither says, or
        the object is gone."""
        path = reference.removeprefix(f"{self._objects.address}/")
        if (found := naming.whose(path)) is not None or "~" not in path:
            return found
        with translated("read the metadata of", reference):
            said = self._objects.metadata(reference)
        return naming.whose(path, said) if said else None

    @property
    def url(self) -> str:
        """The URL below which objects are written and listed."""
        return str(self._objects.address)

    def prefixes(self, under: str = "") -> list[str]:
        """Return the prefixes that can be listed separately, one level down: `task` and `asset`,
        below them the DAGs and the assets, below those the runs and the keys. All objects are below
        the third level."""
        with translated("list", self._objects.reference(under)):
            return self._objects.folders(under)

    def get(self, scope: StoreScope, key: str, *, session: Any = None) -> NoReturn:
        raise _for_workers()

    def set(
        self,
        scope: StoreScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        session: Any = None,
    ) -> NoReturn:
        raise _for_workers()

    def delete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        """Delete every object of the key, whatever its content."""
        self._objects.remove_folders(_folders(scope, key))

    def clear(
        self, scope: StoreScope, *, all_map_indices: bool = False, session: Any = None
    ) -> None:
        """Delete every object of the scope. With `all_map_indices`, objects that the hooks wrote
        under the id of another map index are not found, since ids cannot be guessed."""
        self._objects.remove_folders(_folders(scope, all_map_indices=all_map_indices))

    def serialize_task_store_to_ref(self, *, value: JsonValue, key: str, ti_id: str) -> str:
        return self._serialize(value, naming.folder_by_id(ti_id, key), {"ti": ti_id}, key)

    def deserialize_task_store_from_ref(self, stored: str) -> Any:
        return self._deserialize(stored)

    def serialize_asset_store_to_ref(self, *, value: JsonValue, key: str, asset_ref: str) -> str:
        scope = AssetScope(name=asset_ref)
        return self._serialize(value, naming.folder(scope, key), naming.owner(scope), key)

    def deserialize_asset_store_from_ref(self, stored: str) -> Any:
        return self._deserialize(stored)

    def _reference_for(self, folder: str, content: bytes) -> str | None:
        if len(content) < self._settings.threshold_bytes:
            return None
        if len(content) > self._max_bytes:
            raise too_large_to_offload(len(content), self._max_bytes, folder)
        suffix = self._suffix if len(content) <= LARGEST else ""
        return self._objects.reference(f"{folder}/{naming.name(content, suffix)}")

    def _serialize(self, value: JsonValue, folder: str, owner: dict[str, str], key: str) -> str:
        text = encode(value)
        content = text.encode()
        reference = self._reference_for(folder, content)
        if reference is None:
            return text
        self._objects.put(reference, content, naming.metadata(owner, key))
        return reference

    def _deserialize(self, stored: str) -> Any:
        """Return the value of a reference or of inline JSON, which never begins like a URL."""
        if stored.startswith(_BEGINNINGS):
            return decode(self.fetch(stored).decode())
        return decode(stored)


def _folders(
    scope: StoreScope, key: str | None = None, *, all_map_indices: bool = False
) -> list[str]:
    """Return the folders of the scope's objects: by its names, and by its id for the hooks."""
    folders = [naming.folder(scope, key, all_map_indices=all_map_indices)]
    if isinstance(scope, TaskScope):
        folders.append(naming.folder_by_id(scope.ti_text, key))
    return folders


def _for_workers() -> NotSupported:
    return NotSupported(
        "ObjectStoreBackend stores values for workers; it cannot be the server's backend",
        hint='set [workers] state_backend = "holdfast.sdk.state.ObjectStoreBackend", and leave '
        "[state_store] backend as it is",
    )
