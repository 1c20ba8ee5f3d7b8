"""Atomic publication by rename of directories that Spark writes.

A write goes into a hidden directory of its own, `_holdfast-TARGET-EDITION-UNIQUE/data` beside the
target, and `data` is renamed to the target. Spark's readers skip the hidden directory: its name
begins with an underscore and has no equals sign.

Nobody else publishes from a hidden directory. The publisher holds it open and renames from the open
directory, not from its path: if another publisher removes it, and a Spark job that still runs
creates a directory of the same name again, then the rename fails.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final
from uuid import uuid4

from holdfast.errors import Conflict, HoldfastError, InvalidInput
from holdfast.spark.paths import digest, local_path

FILE: Final = "_holdfast.json"
_DATA: Final = "data"
_OCCUPIED: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR})
_GONE: Final = frozenset({errno.ENOENT, errno.ESTALE})
_UNABLE: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


def publish(
    write: Callable[[str], object],
    directory: str,
    *,
    edition: str,
    manifest: Mapping[str, Any],
    owner: str | None = None,
) -> bool:
    """Let `write` fill a hidden directory beside `directory`, then rename it to `directory`. Return
    False if the same edition is there already.

    An edition identifies the content: of several writers of the same edition, the first publishes.
    A directory of another edition, or without a manifest, is replaced. With an `owner`, only a
    directory published as an edition of this owner is replaced, and InvalidInput is raised for
    others, even for one that appears at the last moment. `manifest` is read after the write. If
    editions follow each other, let `write` check first that its own is still the current one: a
    later edition then never yields to an earlier one, however long a process was stopped. Raises
    Conflict if a writer of another edition has taken over.
    """
    target = local_path(directory)
    parent, name = os.path.split(target)
    try:
        os.makedirs(parent, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"{directory} cannot be written: {error.strerror}",
            hint="check the path and its permissions",
        ) from error
    drafts = f"_holdfast-{digest(name)}-"
    own = f"{drafts}{digest(edition)}-"
    if _edition(target) == edition:
        _discard(parent, drafts)
        return False
    # Drafts of other editions can no longer be published; others may still write this edition.
    _discard(parent, drafts, but=own)
    with _draft(parent, own) as (hidden, opened):
        beside = directory.rstrip("/").rpartition("/")
        try:
            write(f"{beside[0]}{beside[1]}{hidden}/{_DATA}")
            _seal(opened, {**manifest, "edition": edition})
            published = _put(opened, target, edition, owner)
        except HoldfastError:
            raise
        except Exception as error:
            if _edition(target) != edition:
                _explain(error, directory, parent, hidden, opened)
                raise
            published = False  # by another writer, which has removed our draft
    _sync(parent)
    _discard(parent, drafts)
    return published


def withdraw(directory: str, owners: Collection[str], *, but: Collection[str] | None = ()) -> None:
    """Remove a directory that was published as an edition of one of these owners, unless by one of
    the tries `but` (None: by any), and all drafts for it. Leave directories of other owners alone.
    An edition consists of its owner and its try, separated by a space."""
    target = local_path(directory)
    parent, name = os.path.split(target)
    found = _edition(target)
    owner, _, tried = str(found).partition(" ")
    if not os.path.isdir(parent) or (owner not in owners and is_there(directory)):
        return
    _discard(parent, f"_holdfast-{digest(name)}-")
    if owner in owners and but is not None and tried not in but:
        aside = f"{parent}/_holdfast-{digest(name)}-{digest('')}-{uuid4().hex}"
        with suppress(FileNotFoundError):
            os.rename(target, aside)
            if _edition(aside) != found:
                os.rename(aside, target)  # restore what was published there meanwhile
            shutil.rmtree(aside, ignore_errors=True)


def manifest_of(directory: str) -> dict[str, Any] | None:
    """Return the manifest of a published directory; None if there is none."""
    return _manifest(local_path(directory))


def owner_of(directory: str) -> str:
    """Return the owner of the edition that a directory was published as; empty if there is none."""
    return _owner(_edition(local_path(directory)))


def foreign(directory: str) -> InvalidInput:
    """Return the error for an existing directory of another owner."""
    return InvalidInput(
        f"{directory} already exists, and this load did not save it: it belongs to another store "
        "with the same asset, or to a deleted asset or plan, or was written without new.save",
        hint="give each store its own path; if the directory is a leftover, remove it",
    )


def is_there(directory: str) -> bool:
    """Return whether a directory exists and is not empty."""
    try:
        with os.scandir(local_path(directory)) as found:
            return any(found)
    except (FileNotFoundError, NotADirectoryError):
        return False


def discard_drafts(directory: str, edition: str) -> None:
    """Remove the drafts in a directory that killed writers of an edition have left."""
    place, own = local_path(directory), f"-{digest(edition)}-"
    if os.path.isdir(place):
        for name in os.listdir(place):
            if name.startswith("_holdfast-") and own in name:
                _discard(place, name)


def _manifest(target: str, place: int | None = None) -> dict[str, Any] | None:
    try:
        descriptor = os.open(f"{target}/{FILE}", os.O_RDONLY, dir_fd=place)
        with open(descriptor, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _edition(target: str, place: int | None = None) -> Any:
    return (_manifest(target, place) or {}).get("edition")


def _owner(edition: Any) -> str:
    return str(edition or "").partition(" ")[0]


@contextmanager
def _draft(parent: str, own: str) -> Iterator[tuple[str, int]]:
    """Create a hidden directory, hold it open, and remove it and its content at the end."""
    opened = None
    while opened is None:
        hidden = f"{own}{uuid4().hex}"
        os.mkdir(f"{parent}/{hidden}")
        with suppress(FileNotFoundError):  # another publisher removed it at once
            opened = os.open(f"{parent}/{hidden}", os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield hidden, opened
    finally:
        os.close(opened)
        _discard(parent, hidden)


def _seal(opened: int, manifest: dict[str, Any]) -> None:
    """Write the manifest, and sync the whole draft to disk."""
    data = os.open(_DATA, os.O_RDONLY | os.O_DIRECTORY, dir_fd=opened)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(os.open(FILE, flags, 0o666, dir_fd=data), "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        for _, _, files, place in os.fwalk(".", dir_fd=data):
            for name in files:
                with suppress(FileNotFoundError):  # left by a task that Spark has given up
                    _sync(name, place)
            _sync(".", place)
    finally:
        os.close(data)


def _sync(path: str, place: int | None = None) -> None:
    descriptor = os.open(path, os.O_RDONLY, dir_fd=place)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNABLE:  # some file systems cannot sync directories
            raise
    finally:
        os.close(descriptor)


def _put(opened: int, target: str, edition: str, owner: str | None) -> bool:
    """Rename the draft to the target; return False if the target is of the same edition. Raise
    InvalidInput if it is of another owner."""

    def is_foreign(name: str, place: int | None = None) -> bool:
        return owner is not None and _owner(_edition(name, place)) != owner

    while True:
        try:
            # Replaces at most an empty directory, so that the first publisher wins.
            os.rename(_DATA, target, src_dir_fd=opened)
        except OSError as error:
            if error.errno not in _OCCUPIED:
                raise
        else:
            return True
        if _edition(target) == edition:
            return False
        if is_foreign(target) and os.path.lexists(target):
            raise foreign(target)
        try:
            _exchange(opened, target)
        except FileNotFoundError:
            continue  # the target or the draft is gone: the rename will show which
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
        else:
            if is_foreign(_DATA, opened):  # it appeared between the check and the exchange
                _exchange(opened, target)
                raise foreign(target)
            return True
        replaced = f"replaced-{uuid4().hex}"
        with suppress(FileNotFoundError):
            os.rename(target, replaced, dst_dir_fd=opened)
            if is_foreign(replaced, opened):
                os.rename(replaced, target, src_dir_fd=opened)
                raise foreign(target)


def _exchange(opened: int, target: str) -> None:
    """Swap the draft and the target atomically, which Python's `os` does not offer."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        raise OSError(errno.ENOSYS, "renameat2") from None
    names = os.fsencode(_DATA), os.fsencode(target)
    if renameat2(opened, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _discard(parent: str, prefix: str, *, but: str = "\0") -> None:
    """Remove hidden directories so that nothing can be published from them any more."""
    with os.scandir(parent) as found:
        names = [one.name for one in found if one.name.startswith(prefix)]
    for name in names:
        if name.startswith(but):
            continue
        # Rename it first away from the path that Spark jobs know, then away from the name that its
        # publisher knows: removed file by file, it could be published with only some of its files.
        away = f"{parent}/{name[:-32]}{uuid4().hex}"
        with suppress(FileNotFoundError):
            os.rename(f"{parent}/{name}", away)
            with suppress(FileNotFoundError):
                os.rename(f"{away}/{_DATA}", f"{away}/removed")
            shutil.rmtree(away, ignore_errors=True)


def _explain(error: Exception, directory: str, parent: str, hidden: str, opened: int) -> None:
    """Raise Conflict or InvalidInput if the written draft is not where it should be."""
    if not isinstance(error, OSError) or error.errno not in _GONE:
        return
    with suppress(OSError):
        if os.path.samestat(os.stat(f"{parent}/{hidden}"), os.fstat(opened)):
            raise InvalidInput(
                f"Spark wrote {directory} to a file system that this process does not see, or has "
                "another working directory",
                hint="give an absolute path that both see, or a URL with a scheme, such as "
                "hdfs://…",
            ) from error
    raise Conflict(
        f"another writer replaced {directory} while it was being written",
        hint="let one task write a directory at a time; the newest attempt owns it",
    ) from error
