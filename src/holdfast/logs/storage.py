"""Copies of logs in object storage.

<dag>/<run>/<task>/<attempt>.log/<offset>        a piece, which is replaced while it grows
<dag>/<run>/<task>/<attempt>.log/<offset>.end    the log is complete and ends at this offset
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from holdfast.logs.directory import Directory
from holdfast.logs.log import Piece, PiecedLog
from holdfast.model.object_url import parse
from holdfast.stores.offload.objects.failure import translated
from holdfast.stores.offload.objects.opening import check_installed, check_process, open_store

if TYPE_CHECKING:
    from obstore.store import ObjectStore

LISTED_AT_ONCE: Final = 1000
DELETED_AT_ONCE: Final = 1000
"""Objects of one request at most, as S3 allows."""
_NAME: Final = re.compile(r"(\d{20})(\.end)?", re.ASCII)


class LogStorage:
    """The logs below a URL. A log has a key: the path of its file below the directory of logs.

    Errors of the storage are raised as BackendFailed.
    """

    def __init__(self, url: str) -> None:
        check_installed("[logs] url")
        self._address = parse(url)
        self._store: ObjectStore | None = None
        # obstore follows the links that other users of a directory make.
        local = self._address.scheme == "file"
        self._directory = Directory(f"/{self._address.path}") if local else None

    def log(self, key: str) -> StoredLog:
        return StoredLog(self, key)

    def put(self, key: str, start: int, data: bytes) -> None:
        """Write a piece, in place of a shorter one."""
        self._write(f"{key}/{start:020}", data)

    def finish(self, key: str, end: int) -> None:
        """Record that the log is complete."""
        self._write(f"{key}/{end:020}.end", b"")

    def drop(self, key: str, starts: Iterable[int]) -> None:
        """Delete pieces."""
        self._delete([f"{key}/{start:020}" for start in starts])

    def delete(self, folder: str) -> None:
        """Delete everything in a folder: a log, or all logs of a run."""
        if self._directory is not None:
            with translated("delete", f"{self._address}/{folder}"):
                self._directory.delete_tree(folder)
            return
        self._delete([f"{folder}/{name}" for name, _ in self.names(folder)])

    def names(self, folder: str) -> Iterator[tuple[str, int]]:
        """Yield the name of each object, relative to the folder, and its size."""
        with translated("list", f"{self._address}/{folder}"):
            if self._directory is not None:
                yield from self._directory.names(folder)
                return
            for page in self._opened().list(folder, chunk_size=LISTED_AT_ONCE):
                for meta in page:
                    yield meta["path"].removeprefix(f"{folder}/"), meta["size"]

    def fetch(self, key: str, start: int, at: int, size: int) -> bytes | None:
        path = f"{key}/{start:020}"
        with translated("read", f"{self._address}/{path}"):
            try:
                if self._directory is not None:
                    return self._directory.read(path, at, size)
                return bytes(self._opened().get_range(path, start=at, length=size))
            except FileNotFoundError:
                return None

    def _write(self, path: str, data: bytes) -> None:
        with translated("write", f"{self._address}/{path}"):
            if self._directory is not None:
                self._directory.write(path, data)
            else:
                self._opened().put(path, data, use_multipart=False)

    def _delete(self, paths: list[str]) -> None:
        if self._directory is not None:
            for path in paths:
                with translated("delete", f"{self._address}/{path}"), suppress(FileNotFoundError):
                    self._directory.delete(path)
            return
        for first in range(0, len(paths), DELETED_AT_ONCE):
            chunk = paths[first : first + DELETED_AT_ONCE]
            with translated("delete", f"{self._address}/{chunk[0]}"):
                try:
                    self._opened().delete(chunk)
                except FileNotFoundError:  # and not the rest, perhaps
                    for path in chunk:
                        with suppress(FileNotFoundError):
                            self._opened().delete(path)

    def _opened(self) -> ObjectStore:
        check_process()
        if self._store is None:
            self._store = open_store(self._address, tidy=True)
        return self._store


class StoredLog(PiecedLog):
    """A log in object storage."""

    pause = 2.0

    def __init__(self, storage: LogStorage, key: str) -> None:
        self._storage = storage
        self._key = key

    def list(self) -> tuple[Piece, ...]:
        pieces, ends = [], set()
        for name, size in self._storage.names(self._key):
            if match := _NAME.fullmatch(name):
                ends.add(int(match[1])) if match[2] else pieces.append(Piece(int(match[1]), size))
        if ends and not pieces:
            pieces.append(Piece(0, 0))  # the log of an attempt without output
        pieces.sort()
        # A piece that was listed before its last bytes were written does not reach the end.
        self.is_complete = bool(pieces) and pieces[-1].end in ends
        return tuple(pieces)

    def fetch(self, piece: Piece, at: int, size: int) -> bytes | None:
        return self._storage.fetch(self._key, piece.start, at, min(size, piece.size - at))


@lru_cache(maxsize=4)
def log_storage(url: str) -> LogStorage:
    """Return the storage at a URL, the same each time: it keeps connections open."""
    return LogStorage(url)
