"""Objects below a URL: write, read, list and delete by reference."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from io import BytesIO
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.errors import BackendFailed
from holdfast.model.object_url import Address
from holdfast.stores.offload.objects import failure, naming
from holdfast.stores.offload.objects.compression import LARGEST, PIECE, Damaged, unpacked, unpacker
from holdfast.stores.offload.objects.failure import translated
from holdfast.stores.offload.objects.opening import check_process, open_store
from holdfast.stores.offload.objects.upload import PART_SIZE, Upload

if TYPE_CHECKING:
    from obstore.store import ObjectStore

DELETED_AT_ONCE: Final = 1000
LISTED_AT_ONCE: Final = 1000


class Stored(NamedTuple):
    """An existing object."""

    reference: str
    size: int
    last_modified: datetime


class Objects:
    """The objects below a URL, and below former ones, so that what was written before a change of
    the URL can be read. Nothing else is read or changed.

    Stores are opened on first use, in the process that uses them.
    """

    def __init__(self, address: Address, former: Sequence[Address], max_bytes: int) -> None:
        self.address = address
        self._max_bytes = max_bytes
        self.roots = (address, *former)
        self._stores: dict[Address, ObjectStore] = {}

    def put(self, reference: str, content: bytes, metadata: dict[str, str]) -> None:
        """Write the object, unless it exists already. Local files have no metadata."""
        with translated("write", reference):
            root, path, suffix = self._located(reference)
            store = self._opened(root, create=True)
            attributes = metadata if root.scheme != "file" else None
            Upload(store, path, suffix, content, attributes).run()

    def fetch(self, reference: str) -> bytes:
        """Return the content, verified against the digest in the reference. Raise ObjectMissing if
        the object is gone, and BackendFailed if it has been changed, is too large or cannot be
        read."""
        with translated("read", reference):
            return self._fetch(reference)

    def _fetch(self, reference: str) -> bytes:
        root, path, suffix = self._located(reference)
        result = self._opened(root).get(path)
        content, digest, packing = BytesIO(), hashlib.sha256(), unpacker(suffix)
        size = result.meta["size"]
        if packing is None and size > self._max_bytes:
            raise _too_large(reference, f"has {size:,} bytes", self._max_bytes)
        most = min(LARGEST, self._max_bytes)
        stream = result.stream(min_chunk_size=PIECE) if size > PART_SIZE else None
        try:
            while size > 0:
                chunk = next(stream, None) if stream else result.bytes()
                if chunk is None:
                    break
                size -= len(chunk)
                for piece in unpacked(chunk, packing):
                    if packing is not None and content.tell() + len(piece) > most:
                        raise _too_large(reference, "is larger when unpacked", most)
                    digest.update(piece)
                    content.write(piece)
        except Damaged:
            raise _changed(reference) from None
        if not path.endswith(f"{digest.hexdigest()}.json{suffix}"):
            raise _changed(reference)
        # No copy: this is the buffer that was written to.
        return content.getvalue()

    def remove(self, references: Sequence[str]) -> dict[str, str]:
        """Delete objects; return reasons for those that remain. Absent ones count as deleted."""
        failed: dict[str, str] = {}
        found: dict[Address, dict[str, str]] = {}
        for reference in references:
            try:
                root, path, _ = self._located(reference)
            except BackendFailed as error:
                failed[reference] = error.message
            else:
                found.setdefault(root, {})[path] = reference
        for root, by_path in found.items():
            waiting = list(by_path)
            try:
                store = self._opened(root)
                while waiting:
                    refused = self._delete(store, waiting[:DELETED_AT_ONCE])
                    failed |= {by_path[path]: why for path, why in refused.items()}
                    del waiting[:DELETED_AT_ONCE]
            except Exception as error:
                why = error.message if isinstance(error, BackendFailed) else failure.reason(error)
                failed |= {by_path[path]: why for path in waiting}
        return failed

    def remove_folders(self, folders: Sequence[str]) -> None:
        """Delete all objects below the folders. Raise BackendFailed if one cannot be deleted."""
        found: list[str] = []
        with translated("delete", self.reference(folders[0])):
            for folder in folders if self._is_there() else ():
                for page in self._opened(self.address).list(folder, chunk_size=LISTED_AT_ONCE):
                    paths = (meta["path"] for meta in page)
                    found += [self.reference(path) for path in paths if _is_ours(path)]
        for reference, why in self.remove(found).items():
            raise BackendFailed(
                f"cannot delete {reference}: {why}",
                hint="`holdfast state-store reconcile --delete` removes leftovers",
            )

    def metadata(self, reference: str) -> dict[str, str] | None:
        """Return an object's metadata, which is empty for local files; None if it is gone."""
        root, path, _ = self._located(reference)
        try:
            found = self._opened(root).get(path, options={"head": True})
        except FileNotFoundError:
            return None
        return dict(found.attributes)

    def stored(self, folder: str, foreign: bool = False) -> Iterator[Stored]:
        """Yield all objects below a folder as they are listed; foreign files only on request."""
        if self._is_there():
            for page in self._opened(self.address).list(folder or None, chunk_size=LISTED_AT_ONCE):
                for meta in page:
                    path = meta["path"]
                    if foreign or _is_ours(path):
                        yield Stored(self.reference(path), meta["size"], meta["last_modified"])

    def folders(self, folder: str) -> list[str]:
        """Return the folders in a folder, or at the top level."""
        if not self._is_there():
            return []
        found = self._opened(self.address).list_with_delimiter(folder or None)["common_prefixes"]
        return sorted(path for path in found if path.partition("/")[0] in naming.KINDS)

    def reference(self, path: str) -> str:
        return f"{self.address}/{path}"

    def reaches(self, reference: str) -> bool:
        """Return whether the reference is below one of the URLs, so that the object could exist."""
        return self._found(reference) is not None

    def _located(self, reference: str) -> tuple[Address, str, str]:
        """Return the root of a reference, the path below it, and the suffix. Raise BackendFailed if
        it is no reference, below none of the URLs, or behind a symbolic link."""
        said = naming.digest_and_suffix(reference)
        if said is None:
            raise BackendFailed(
                f"{reference!r} is not a reference to an object",
                hint="it was written with another [workers] state_backend; configure the one that "
                "wrote it",
            )
        if (found := self._found(reference)) is None:
            raise elsewhere(reference, "s3://bucket/prefix")
        root, path = found
        if root.scheme == "file" and _leads_away(f"/{root.path}", path):
            raise BackendFailed(
                f"the object {reference} is behind a symbolic link",
                hint="replace the link below the directory by what it leads to, or delete it",
            )
        return root, path, said[1]

    def _found(self, reference: str) -> tuple[Address, str] | None:
        for root in self.roots:
            path = reference.removeprefix(f"{root}/")
            if path != reference and _is_ours(path):
                return root, path
        return None

    def _opened(self, root: Address, *, create: bool = False) -> ObjectStore:
        check_process()
        if root.scheme == "file" and not os.path.isdir(f"/{root.path}"):
            if not create:
                raise BackendFailed(
                    f"the directory /{root.path} of [object_store] {self._setting(root)} does not "
                    "exist",
                    hint="mount it on this machine",
                )
            os.makedirs(f"/{root.path}", exist_ok=True)
        store = self._stores.get(root)
        if store is None:
            store = self._stores[root] = open_store(root, tidy=root == self.address)
        return store

    def _setting(self, root: Address) -> str:
        return "url" if root == self.address else "former_urls"

    def _is_there(self) -> bool:
        """Return whether the storage exists: a directory is created by the first write."""
        return self.address.scheme != "file" or os.path.isdir(f"/{self.address.path}")

    def _delete(self, store: ObjectStore, paths: list[str]) -> dict[str, str]:
        """Delete in one batch, or one by one if the batch fails because of one of them."""
        try:
            store.delete(paths)
        except Exception as error:
            if failure.classify(error).affects_all:
                raise
        else:
            return {}
        refused = {}
        for path in paths:
            try:
                store.delete(path)
            except FileNotFoundError:
                continue
            except Exception as error:
                if failure.classify(error).affects_all:
                    raise
                refused[path] = failure.reason(error)
        return refused


def _is_ours(path: str) -> bool:
    return path.partition("/")[0] in naming.KINDS and naming.digest_and_suffix(path) is not None


def _leads_away(root: str, path: str) -> bool:
    """Return whether a path below a directory has a symbolic link in it. Another user may have made
    it, for a file that they cannot read or delete themselves."""
    return os.path.realpath(f"{root}/{path}") != f"{os.path.realpath(root)}/{path}"


def elsewhere(reference: str, root: str) -> BackendFailed:
    """Return the error for a reference that is below no configured URL, but may be below `root`."""
    return BackendFailed(
        f"the object {reference} is neither below [object_store] url nor below a former one",
        hint="if values were stored there before the URL was changed, set [object_store] "
        f'former_urls = ["{root}"]; otherwise it cannot be read or deleted from here',
    )


def _too_large(reference: str, what: str, limit: int) -> BackendFailed:
    return BackendFailed(
        f"the object {reference} {what}; the limit is {limit:,}",
        hint="raise [object_store] max_value_bytes if a value this large was stored; otherwise "
        "another program changed it: restore it from a backup, or set the key again",
    )


def _changed(reference: str) -> BackendFailed:
    return BackendFailed(
        f"the object {reference} is not as it was written: its content has another digest",
        hint="another program changed or truncated it; restore it from a backup, or set the key "
        "again",
    )
