"""Log files of a bounded size.

A log begins in the file of its name. When that is full, further pieces follow in files with the
offset of their first byte after the name: `1.log`, `1.log.00000000000016777216`. The first piece
and the newest ones remain.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.logs.directory import Directory
from holdfast.logs.log import Piece, PiecedLog

PIECES: Final = 4
"""Number of files of a log at its largest, which share its maximum size."""
_OFFSET: Final = re.compile(r"\.(\d{20})", re.ASCII)


def log_of(file: Path) -> Path:
    """Return the path of the log that a file is a piece of."""
    return file.with_suffix("") if _OFFSET.fullmatch(file.suffix) else file


class LogFile(PiecedLog):
    """A log on this machine."""

    pause = 0.2

    def __init__(self, path: Path, root: Path | None = None) -> None:
        """Create the reader of a log below `root`, by default in it. Links below that are not
        followed."""
        root = root or path.parent
        self._directory = Directory(str(root))
        self._key = path.relative_to(root)

    def list(self) -> tuple[Piece, ...]:
        folder = self._key.parent
        sizes = self._directory.files("" if folder == Path() else str(folder))
        starts = _starts_among(sizes, self._key.name)
        return tuple(Piece(start, sizes[_file(self._key.name, start)]) for start in starts)

    def fetch(self, piece: Piece, at: int, size: int) -> bytes | None:
        try:
            return self._directory.read(_file(self._key, piece.start), at, size)
        except FileNotFoundError:
            return None


class LogWriter:
    """Appends to a log, together with other writers in this process and in others.

    A write is in the file when it returns, so it survives `kill -9` of the writer. Errors are not
    raised, since a full disk must not end the task whose output this is: once a write succeeds
    again, a line before it says that output was lost.
    """

    def __init__(self, path: Path, max_size: int) -> None:
        """Create the log or continue it. Raise OSError if that fails."""
        self._path = path
        self._piece_size = max_size // PIECES
        self._failure = ""
        """Why the last write failed; empty: it did not."""
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._open()
        except FileNotFoundError:  # a cleanup has just removed the empty directory
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open()

    def write(self, data: bytes) -> None:
        if self._failure:
            data = f"\n[output was lost here: {self._failure}]\n".encode() + data
        try:
            while data:
                with self._newest_piece() as size:
                    data = data[self._append(data, size) :]
        except OSError as error:
            self._failure = error.strerror or "it could not be written"
        else:
            self._failure = ""

    def close(self) -> None:
        os.close(self._descriptor)

    def _open(self) -> None:
        start = max(_starts(self._path), default=0)
        self._descriptor, self._start = _opened(self._path, start), start

    @contextmanager
    def _newest_piece(self) -> Iterator[int]:
        """Lock the newest piece and yield its size; no other writer appends to it or adds one."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            while not self._is_newest():
                before = self._descriptor
                self._open()
                os.close(before)
                fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            yield os.fstat(self._descriptor).st_size
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _is_newest(self) -> bool:
        """Return False if another writer has added a piece, or somebody has deleted this one."""
        status = os.fstat(self._descriptor)
        if not status.st_nlink:
            return False
        following = _file(self._path, self._start + status.st_size)
        return not status.st_size or not os.path.exists(following)

    def _append(self, data: bytes, size: int) -> int:
        """Append what fits, which is whole lines if possible, and add a piece where that is not
        all; return the number of bytes."""
        room = max(self._piece_size - size, 0)
        if len(data) <= room:
            return _write_all(self._descriptor, data)
        cut = data.rfind(b"\n", 0, room) + 1
        # A piece that is not empty ends before a line that does not fit into it.
        fitting = _write_all(self._descriptor, data[: cut if cut or size else room])
        start = self._start + size + fitting
        added = _opened(self._path, start)
        for former in _starts(self._path)[1 : 1 - PIECES]:
            with suppress(FileNotFoundError):
                os.unlink(_file(self._path, former))
        os.close(self._descriptor)
        self._descriptor, self._start = added, start
        return fitting


def _starts(path: Path) -> list[int]:
    """Return the offsets of the pieces of a log, in order."""
    try:
        names = os.listdir(path.parent)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return _starts_among(names, path.name)


def _starts_among(names: Collection[str], log: str) -> list[int]:
    found = [0] if log in names else []
    for name in names:
        if name.startswith(log) and (match := _OFFSET.fullmatch(name[len(log) :])):
            found.append(int(match[1]))
    # A task may create files of any name here.
    return sorted({start for start in found if start < 2**63 and _file(log, start) in names})


def _file(path: Path | str, start: int) -> str:
    return f"{path}.{start:020}" if start else str(path)


def _opened(path: Path, start: int) -> int:
    return os.open(_file(path, start), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def _write_all(descriptor: int, data: bytes) -> int:
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])
    return written
