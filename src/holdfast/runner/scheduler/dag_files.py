"""Directory of DAG files, with detection of changes."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import NamedTuple, TypeAlias

from holdfast.errors import NotFound

_MARK = re.compile(r"dag|@[\w.]*asset\b", re.IGNORECASE)
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES}

_Stamp: TypeAlias = tuple[int, ...]


class Changes(NamedTuple):
    changed: list[str]
    gone: list[str]


class DagDirectory:
    """The Python files under a directory that mention Holdfast and a DAG.

    Symbolic links, including those to directories, are resolved anew each time: pointing one to
    another directory is a change of files.
    """

    def __init__(self, directory: Path) -> None:
        if not directory.is_dir():
            raise NotFound(
                f"there is no directory {directory}", hint="give the directory with the DAG files"
            )
        self._directory = Path(os.path.abspath(directory))
        self._seen: dict[str, _Stamp] | None = None
        self._dag_files: set[str] = set()
        self._unread: set[str] = set()
        """The DAG files that could not be read at the last check."""

    def __str__(self) -> str:
        return printable_path(str(self._directory))

    def name(self, file: str) -> str:
        """Return the name of a file in the store: its printable path inside the directory."""
        return printable_path(Path(file).relative_to(self._directory).as_posix())

    def holds(self, file: str) -> bool:
        """Return whether a path is inside the directory."""
        return Path(file).is_relative_to(self._directory)

    def has(self, file: str) -> bool:
        """Return whether a path was a DAG file at the last check."""
        return file in self._dag_files

    def names(self) -> dict[str, str] | None:
        """Return the DAG files of the last check by their names; None before the first."""
        return None if self._seen is None else {self.name(file): file for file in self._dag_files}

    def forget(self, file: str) -> None:
        """Discard the recorded state of a file, so that it is checked again."""
        if self._seen is not None:
            self._seen[file] = ()

    def recall(self, files: Iterable[str]) -> None:
        """Add DAG files that were known earlier; `changes` reports those that are gone."""
        self._dag_files.update(files)

    def changes(self) -> Changes:
        """Return the DAG files that have changed or are gone since the last call.

        A change of a module that is no DAG file may affect all of them, so all count as changed. A
        file that cannot be read counts as a DAG file, whose import will report the reason, and is
        read again at each call.
        """
        seen = self._seen or {}
        try:
            present = {
                file: stamp
                for file in self._files()
                if (stamp := _stamp(file, seen.get(file))) is not None
            }
        except OSError:  # a directory vanished while it was read; the next call retries
            return Changes([], [])
        if present == self._seen and not self._unread:
            return Changes([], [])
        self._seen = present
        touched = {file for file, stamp in present.items() if seen.get(file) != stamp}
        removed = seen.keys() - present.keys()
        before, unread = self._dag_files, self._unread
        self._read(touched | unread, present.keys())
        touched |= unread - self._unread
        shared = (touched | removed) - self._dag_files - (before - unread)
        changed = self._dag_files if shared else self._dag_files & touched
        return Changes(sorted(changed), sorted(before - self._dag_files))

    def _read(self, files: set[str], present: Set[str]) -> None:
        """Determine which of `files` are DAG files; the status of others does not change."""
        self._dag_files = (self._dag_files & present) - files
        self._unread = set()
        for file in files & present:
            try:
                if _is_dag_file(file):
                    self._dag_files.add(file)
            except OSError:
                self._dag_files.add(file)
                self._unread.add(file)

    def _files(self) -> Iterator[str]:
        """Yield the Python files. Raise OSError if a directory cannot be read for a reason other
        than its permissions.

        Each directory is read once, by the path with the fewest links, so that cycles of links end.
        """
        read: set[tuple[int, int]] = set()
        roots = [str(self._directory)]
        for root in roots:  # which grows: links are followed after all real directories
            for folder, folders, names in os.walk(root, onerror=_pass_over):
                status = os.stat(folder)
                if (status.st_dev, status.st_ino) in read:
                    folders.clear()
                    continue
                read.add((status.st_dev, status.st_ino))
                folders[:] = sorted(n for n in folders if not n.startswith((".", "__pycache__")))
                inside = [os.path.join(folder, name) for name in folders]
                roots += filter(os.path.islink, inside)
                yield from (os.path.join(folder, name) for name in names if name.endswith(".py"))


def printable_path(path: str) -> str:
    """Return a path with control characters, and bytes that are not UTF-8, escaped."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: repr(found[0])[1:-1], text)


def _pass_over(error: OSError) -> None:
    if not isinstance(error, PermissionError):
        raise error


def _stamp(file: str, before: _Stamp | None) -> _Stamp | None:
    """Return a fingerprint of a file's state; None if there is no regular file, and `before` if the
    state cannot be read at the moment."""
    try:
        status = os.stat(file)
    except OSError as error:
        return None if error.errno in _ABSENT else before
    if not stat.S_ISREG(status.st_mode):
        return None  # opening a FIFO would block until there is a writer
    return (
        *(status.st_mtime_ns, status.st_ctime_ns),
        *(status.st_size, status.st_dev, status.st_ino),
    )


def _is_dag_file(file: str) -> bool:
    text = Path(file).read_text(encoding="utf-8", errors="replace")
    return "holdfast" in text and _MARK.search(text) is not None
