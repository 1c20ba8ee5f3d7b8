"""Access to the files below a directory without following symbolic links.

Other users may write below it. A link of theirs must not lead a reader, or a deletion, to what they
could not reach themselves.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from stat import S_ISREG
from typing import Final
from uuid import uuid4

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY
# Without O_NONBLOCK, a named pipe would block until somebody writes to it.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_DEEPEST: Final = 32
"""Levels of directories that are walked; logs have fewer. Each level takes up a descriptor."""


class Directory:
    """Regular files below a directory, which itself may be a link. Paths are relative to it.

    Whatever is behind a link, or is not a regular file, does not exist here: FileNotFoundError.
    Other errors of the system are raised as OSError.
    """

    def __init__(self, root: str) -> None:
        self._root = root

    def write(self, path: str, data: bytes) -> None:
        """Write a file, in place of an earlier one, and create its directories."""
        os.makedirs(self._root, exist_ok=True)
        folder, _, name = path.rpartition("/")
        temporary = f".{name}.{uuid4().hex}"
        with self._opened(folder, create=True) as chain:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            try:
                with open(os.open(temporary, flags, 0o666, dir_fd=chain[-1]), "wb") as file:
                    file.write(data)
                os.rename(temporary, name, src_dir_fd=chain[-1], dst_dir_fd=chain[-1])
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=chain[-1])
                raise

    def read(self, path: str, at: int, size: int) -> bytes:
        """Return up to `size` bytes of a file."""
        folder, _, name = path.rpartition("/")
        with self._opened(folder) as chain:
            with _absent_if_linked():
                descriptor = os.open(name, _FILE, dir_fd=chain[-1])
            try:
                if not S_ISREG(os.fstat(descriptor).st_mode):
                    raise FileNotFoundError(path)
                return os.pread(descriptor, size, at)
            finally:
                os.close(descriptor)

    def names(self, folder: str) -> Iterator[tuple[str, int]]:
        """Yield the path of each file below a folder, relative to it, and its size."""
        with suppress(FileNotFoundError), self._opened(folder) as chain:
            for path, _, files, descriptor in walk(chain[-1], _raise):
                for name in files:
                    with suppress(FileNotFoundError):
                        yield f"{path}{name}", _size(name, descriptor)

    def files(self, folder: str) -> dict[str, int]:
        """Return the sizes of the files in a folder by their names."""
        found = {}
        with suppress(FileNotFoundError), self._opened(folder) as chain:
            for name in os.listdir(chain[-1]):
                with suppress(FileNotFoundError):
                    found[name] = _size(name, chain[-1])
        return found

    def delete(self, path: str) -> None:
        """Delete a file or a link, and directories that are empty then."""
        folder, _, name = path.rpartition("/")
        with self._opened(folder) as chain:
            os.unlink(name, dir_fd=chain[-1])
            _remove_empty(folder, chain)

    def delete_tree(self, folder: str) -> None:
        """Delete a folder with everything in it, and directories that are empty then. Links are
        deleted, not followed. Raise the first OSError once everything else is deleted."""
        failures: list[OSError] = []
        with suppress(FileNotFoundError), self._opened(folder) as chain:
            for _, directories, files, descriptor in walk(chain[-1], failures.append):
                for remove, names in ((os.unlink, files), (os.rmdir, directories)):
                    for name in names:
                        try:
                            remove(name, dir_fd=descriptor)
                        except FileNotFoundError:
                            pass
                        except OSError as error:
                            failures.append(error)
            _remove_empty(folder, chain)
        above, _, name = folder.rpartition("/")
        with suppress(OSError), self._opened(above) as chain:
            os.unlink(name, dir_fd=chain[-1])  # a link in place of the folder
            _remove_empty(above, chain)
        if failures:
            raise failures[0]

    @contextmanager
    def _opened(self, folder: str, *, create: bool = False) -> Iterator[list[int]]:
        """Yield the descriptors of the root and of each directory down to the folder."""
        with ExitStack() as stack:
            with _absent_if_linked():
                chain = [os.open(self._root, _DIRECTORY)]
            stack.callback(os.close, chain[0])
            for name in _parts(folder):
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=chain[-1])
                with _absent_if_linked():
                    chain.append(os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=chain[-1]))
                stack.callback(os.close, chain[-1])
            yield chain


def walk(
    directory: int, failed: Callable[[OSError], object], path: str = "", depth: int = 0
) -> Iterator[tuple[str, list[str], list[str], int]]:
    """Yield each directory below one, from the innermost outward: its path, which ends in `/`, the
    names of its directories and other files, and its descriptor. Links are not followed.

    Call `failed` with an error, and go on: for a directory that cannot be read, or is nested deeper
    than any of ours. The path of the given directory itself is empty.
    """
    with os.scandir(directory) as found:
        kinds = [(one.name, one.is_dir(follow_symlinks=False)) for one in found]
    directories = [name for name, is_directory in kinds if is_directory]
    for name in directories:
        if depth == _DEEPEST:
            failed(OSError(errno.ELOOP, "directories are nested too deeply", f"{path}{name}"))
            continue
        try:
            inner = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            try:
                yield from walk(inner, failed, f"{path}{name}/", depth + 1)
            finally:
                os.close(inner)
        except FileNotFoundError:
            continue
        except OSError as error:
            failed(error)
    yield path, directories, [name for name, is_directory in kinds if not is_directory], directory


def _raise(error: OSError) -> None:
    raise error


@contextmanager
def _absent_if_linked() -> Iterator[None]:
    """Raise FileNotFoundError where a path leads through a link, or through a file."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):  # ENXIO: a socket
            raise FileNotFoundError(errno.ENOENT, "behind a link or a file") from None
        raise


def _size(name: str, directory: int) -> int:
    """Return the size of a regular file. Raise FileNotFoundError for anything else."""
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not S_ISREG(status.st_mode):
        raise FileNotFoundError(name)
    return status.st_size


def _parts(folder: str) -> list[str]:
    return folder.split("/") if folder else []


def _remove_empty(folder: str, chain: list[int]) -> None:
    """Remove the directories of a folder from the innermost outward, until one is not empty."""
    with suppress(OSError):
        for name, above in zip(reversed(_parts(folder)), reversed(chain[:-1]), strict=True):
            os.rmdir(name, dir_fd=above)
