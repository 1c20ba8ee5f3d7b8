"""A directory of DAG files, and which of them have changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

from holdfast.errors import NotFound

_MARKS = ("DAG", "@dag", "@asset")

_Stamp: TypeAlias = tuple[int, ...]


class Changes(NamedTuple):
    changed: list[str]
    gone: list[str]


class DagDirectory:
    """The Python files under a directory that speak of Holdfast and of a DAG.

    Links are followed anew each time, also those to directories: one that is set to another
    directory is a change of files.
    """

    def __init__(self, directory: Path) -> None:
        if not directory.is_dir():
            raise NotFound(
                f"there is no directory {directory}", hint="give the one that holds the DAG files"
            )
        self._directory = Path(os.path.abspath(directory))
        self._seen: dict[Path, _Stamp] | None = None
        self._dag_files: set[str] = set()

    def name(self, file: str) -> str:
        """What the store knows a file by: its path inside the directory."""
        return Path(file).relative_to(self._directory).as_posix()

    def holds(self, file: str) -> bool:
        """Whether a path is one inside the directory."""
        return Path(file).is_relative_to(self._directory)

    def has(self, file: str) -> bool:
        """Whether it was a DAG file when last looked."""
        return file in self._dag_files

    def forget(self, file: str) -> None:
        """Have the file looked at anew: what was seen of it has come to nothing."""
        if self._seen is not None:
            self._seen[Path(file)] = ()

    def recall(self, files: Iterable[str]) -> None:
        """DAG files of earlier times: those of them that are gone will be told."""
        self._dag_files.update(files)

    def changes(self) -> Changes:
        """Since the last call. A change of a module that is no DAG file may change all of them."""
        try:
            present = {path: stamp for path in self._paths() if (stamp := _stamp(path)) is not None}
        except OSError:  # a directory vanished while it was read; there is a next time
            return Changes([], [])
        if present == self._seen:
            return Changes([], [])
        seen, self._seen = self._seen or {}, present
        touched = {path for path, stamp in present.items() if seen.get(path) != stamp}
        removed = seen.keys() - present.keys()
        before = self._dag_files
        self._dag_files = {str(path) for path in present if _is_dag_file(path)}
        shared = any(str(path) not in self._dag_files | before for path in touched | removed)
        changed = self._dag_files if shared else self._dag_files & {str(path) for path in touched}
        return Changes(sorted(changed), sorted(before - self._dag_files))

    def _paths(self) -> Iterator[Path]:
        """Yield the Python files. Each directory is read once, by the path with the fewest links,
        so that loops of links end. Raise OSError where a directory cannot be read for a reason
        other than its permissions."""
        read: set[tuple[int, int]] = set()
        roots = [str(self._directory)]
        for root in roots:  # which grows: links are followed after all that is there without them
            for folder, folders, names in os.walk(root, onerror=_pass_over):
                status = os.stat(folder)
                if (status.st_dev, status.st_ino) in read:
                    folders.clear()
                    continue
                read.add((status.st_dev, status.st_ino))
                folders[:] = sorted(n for n in folders if not n.startswith((".", "__pycache__")))
                inside = [os.path.join(folder, name) for name in folders]
                roots += filter(os.path.islink, inside)
                yield from (Path(folder, name) for name in names if name.endswith(".py"))


def _pass_over(error: OSError) -> None:
    if not isinstance(error, PermissionError):
        raise error


def _stamp(path: Path) -> _Stamp | None:
    """Return what tells one state of a file from another; None where there is no regular file."""
    try:
        status = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None  # to open a FIFO would wait for a writer
    return (
        *(status.st_mtime_ns, status.st_ctime_ns),
        *(status.st_size, status.st_dev, status.st_ino),
    )


def _is_dag_file(path: Path) -> bool:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "holdfast" in text and any(mark in text for mark in _MARKS)
