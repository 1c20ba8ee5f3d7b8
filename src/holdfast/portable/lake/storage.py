"""Files of a lake table, in a local directory or in object storage.

Object storage is reached with obstore, which only the machines that read or write need. Without
options, credentials come from the environment of the process, as in `[object_store]`.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple, Protocol, TypeVar

from holdfast.errors import (
    BackendFailed,
    HoldfastError,
    InvalidInput,
    MissingDependency,
    ObjectMissing,
)

A = TypeVar("A")
B = TypeVar("B")

THREADS = 16
"""Number of files that one process opens at the same time, where each takes a round trip."""
PART_SIZE = 8 * 2**20
"""Size of the parts in which large files are uploaded."""
DELETED_AT_ONCE = 1000
_CLIENT_OPTIONS = (
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "pool_idle_timeout",
    "proxy_url",
    "read_timeout",
    "root_certificate",
    "timeout",
    "user_agent",
)
_UNABLE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
"""Errors of file systems that cannot sync directories."""
_ENDPOINTS = ("aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint", "endpoint_url", "endpoint")


class Listed(NamedTuple):
    """An existing file."""

    path: str
    size: int
    modified: float
    """Seconds since 1970."""


class Files(Protocol):
    """The files below a directory, by their paths relative to it."""

    def create(self, path: str) -> AbstractContextManager[Any]:
        """Open a new file for writing. It is complete when the block has ended; an error in the
        block may leave a part of it."""

    def open(self, path: str) -> Any:
        """Open a file for reading anywhere in it."""

    def tail(self, path: str, size: int, count: int) -> bytes:
        """Return the last `count` bytes of a file of `size` bytes."""

    def list(self, directory: str) -> Iterator[Listed]:
        """Yield all files below a directory, of any depth and in any order."""

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files. Absent ones count as deleted."""

    def sync(self, paths: Sequence[str]) -> None:
        """Let files that other processes have written outlive a loss of power.

        Raise InvalidInput if this process does not see them.
        """


def open_files(location: str, options: dict[str, str]) -> Files:
    """Return the files below a URL or an absolute local path. A `%` stands for itself, as in the
    metadata of tables.

    Raise MissingDependency if the URL needs obstore, which is not installed here.
    """
    found = re.match(r"file:(//[^/]*)?(?=/)", location, re.IGNORECASE)
    if found or "://" not in location:
        return LocalFiles(location[found.end() :] if found else location)
    return ObjectFiles(location, options)


def is_absolute(path: str) -> bool:
    """Return whether a path is complete by itself, not relative to the table's location."""
    return path.startswith("/") or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", path) is not None


def split_path(path: str) -> tuple[str, str]:
    """Return the root of the file system that a complete path is in, and the path below it."""
    scheme, found, rest = path.partition("://")
    if not found or scheme.lower() == "file":
        return "/", re.sub("^file:(//[^/]*)?", "", path, flags=re.IGNORECASE).lstrip("/")
    bucket, _, below = rest.partition("/")
    return f"{scheme}://{bucket}", below


def for_each(work: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """Return the results of a function that waits for the storage, for each item, in order."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, items))


class LocalFiles:
    """Files of a local or mounted file system."""

    def __init__(self, directory: str) -> None:
        self._directory = directory.rstrip("/") or "/"

    @contextmanager
    def create(self, path: str) -> Iterator[Any]:
        target = self._full(path)
        with translated("write", target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "xb", buffering=2**20) as file:
                try:
                    yield file
                except BaseException:
                    with suppress(OSError):
                        os.unlink(target)
                    raise

    def open(self, path: str) -> Any:
        import pyarrow as pa

        with translated("read", path):
            return pa.OSFile(self._full(path))

    def tail(self, path: str, size: int, count: int) -> bytes:
        with translated("read", path), open(self._full(path), "rb") as file:
            file.seek(size - count)
            return file.read(count)

    def list(self, directory: str) -> Iterator[Listed]:
        for parent, _, names in os.walk(self._full(directory)):
            for name in names:
                found = os.path.join(parent, name)
                with suppress(FileNotFoundError):
                    status = os.stat(found)
                    path = os.path.relpath(found, self._directory)
                    yield Listed(path, status.st_size, status.st_mtime)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            found = self._full(path)
            with suppress(FileNotFoundError):
                os.unlink(found)
            self._remove_empty(os.path.dirname(found))

    def sync(self, paths: Sequence[str]) -> None:
        try:
            for_each(_sync, map(self._full, paths))
        except FileNotFoundError as error:
            raise InvalidInput(
                f"Spark has written {error.filename}, and this process does not see it",
                hint="give a path that all machines share, or the URL of object storage",
            ) from None
        for directory in {parent for path in paths for parent in _parents(path)}:
            _sync(self._full(directory))

    def _remove_empty(self, directory: str) -> None:
        with suppress(OSError):
            while len(directory) > len(self._directory):
                os.rmdir(directory)
                directory = os.path.dirname(directory)

    def _full(self, path: str) -> str:
        if ".." in path.split("/"):
            raise BackendFailed(
                f"the file {path} is outside of the table", hint="repair the table's metadata"
            )
        return os.path.join(self._directory, path)


class ObjectFiles:
    """Objects below a URL."""

    def __init__(self, location: str, options: dict[str, str]) -> None:
        try:
            from obstore import store
        except ImportError:
            raise MissingDependency(
                f"{location} needs the package obstore, which is not installed here",
                hint='pip install "holdfast-state[objects]" on every machine of Spark',
            ) from None
        self._location = location.rstrip("/")
        scheme, _, rest = location.partition("://")
        bucket, _, self._prefix = rest.strip("/").partition("/")
        root = f"{scheme}://{bucket}"
        if scheme in ("http", "https"):  # whose path may name a bucket first
            root, self._prefix = location, ""
        with translated("open", location):
            self._store: Any = _opened(store.from_url, root, *_split(options))

    @contextmanager
    def create(self, path: str) -> Iterator[Any]:
        from obstore import open_writer

        with translated("write", self._name(path)):
            # Without its own `with`, so that an error leaves nothing that looks complete.
            upload = Upload(open_writer(self._store, self._key(path), buffer_size=PART_SIZE))
            yield upload
            upload.finish()

    def open(self, path: str) -> Any:
        with translated("read", self._name(path)):
            return Download(self._store, self._key(path))

    def tail(self, path: str, size: int, count: int) -> bytes:
        with translated("read", self._name(path)):
            return bytes(self._store.get_range(self._key(path), start=size - count, end=size))

    def list(self, directory: str) -> Iterator[Listed]:
        with translated("list", self._name(directory)):
            skipped = len(self._key(""))
            for page in self._store.list(self._key(directory) or None, chunk_size=1000):
                for found in page:
                    modified = found["last_modified"].timestamp()
                    yield Listed(found["path"][skipped:], found["size"], modified)

    def delete(self, paths: Iterable[str]) -> None:
        waiting = list(map(self._key, paths))
        with translated("delete files of", self._location):
            for first in range(0, len(waiting), DELETED_AT_ONCE):
                self._store.delete(waiting[first : first + DELETED_AT_ONCE])

    def sync(self, paths: Sequence[str]) -> None:
        """Do nothing: an object is durable when it is there."""

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{path}" if self._prefix else path

    def _name(self, path: str) -> str:
        return f"{self._location}/{path}"


class Download:
    """An object of which the parts that a reader asks for are downloaded."""

    def __init__(self, store: Any, path: str) -> None:
        self._store = store
        self._path = path
        self._size = int(store.head(path)["size"])
        self._position = 0
        self.closed = False

    def read(self, count: int = -1) -> bytes:
        left = max(0, self._size - self._position)
        count = left if count < 0 else min(count, left)
        if not count:
            return b""
        start = self._position
        self._position += count
        return bytes(self._store.get_range(self._path, start=start, length=count))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


class Upload:
    """A file that is uploaded while it is written."""

    def __init__(self, upload: Any) -> None:
        self._upload = upload
        self._position = 0
        self.closed = False

    def write(self, content: Any) -> int:
        self._upload.write(content)
        self._position += len(content)
        return len(content)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Do nothing: parts are sent when they are large enough."""

    def close(self) -> None:
        """Do nothing: a writer also closes a file that it could not finish."""

    def finish(self) -> None:
        """Make the object appear, as a whole."""
        self._upload.close()


@contextmanager
def translated(doing: str, what: str) -> Iterator[None]:
    """Raise BackendFailed or ObjectMissing for an error of the storage."""
    try:
        yield
    except HoldfastError:
        raise
    except FileNotFoundError as error:
        if doing != "read":
            raise _failed(doing, what, error) from None
        raise ObjectMissing(
            f"the file {what} does not exist",
            hint="it was deleted after the table's version that names it, for example by a vacuum",
        ) from None
    except Exception as error:
        if isinstance(error, OSError) or type(error).__module__.startswith("obstore"):
            raise _failed(doing, what, error) from None
        raise


def _failed(doing: str, what: str, error: Exception) -> BackendFailed:
    # The URL of a request may contain a signature.
    text = re.sub(r"\w+://\S+", "…", str(error).partition("\n\nDebug source")[0])
    reason = " ".join(text.split())[:500] or type(error).__name__
    return BackendFailed(
        f"cannot {doing} {what}: {reason}",
        hint="check that Spark's machines reach the storage and may write there; they take "
        "credentials from storage_options or from their own environment",
    )


def _opened(open_store: Any, location: str, config: dict[str, Any], client: dict[str, Any]) -> Any:
    """Open a store. Options that only the table's library has are left out."""
    from obstore.exceptions import UnknownConfigurationKeyError

    url = location.replace("s3n://", "s3://", 1)
    while True:
        try:
            return open_store(url, config=config or None, client_options=client)
        except UnknownConfigurationKeyError as error:
            unknown = re.search(r"key: '([^']+)'", str(error))
            if unknown is None or config.pop(unknown[1], None) is None:
                raise


def _split(options: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the configuration of a store, and that of its HTTP client."""
    config: dict[str, Any] = {}
    client: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=5),
        "read_timeout": timedelta(seconds=30),
        "timeout": timedelta(hours=1),
    }
    for name, value in options.items():
        key = name.lower()
        plain = re.sub("^(aws|azure|google)_", "", key)
        if plain in _CLIENT_OPTIONS:
            client[plain] = value
        else:
            config[key] = value
    if "allow_http" not in client:
        ours = [config.get(name) or os.environ.get(name.upper(), "") for name in _ENDPOINTS]
        client["allow_http"] = (
            any(url.startswith("http://") for url in ours)
            or os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"
        )
    return config, client


def _parents(path: str) -> Iterator[str]:
    """Yield the directories in which a relative path is, up to the one that it begins in."""
    while path:
        path = os.path.dirname(path)
        yield path


def _sync(path: str) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in _UNABLE:
            raise
    finally:
        os.close(opened)
