"""Paths of directories that Spark writes: where they are, and whether this process sees them."""

from __future__ import annotations

import os
import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import InvalidInput, InvalidType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
PATTERN: Final = re.compile(r"[*?\[\]{}\\]")
"""Characters of a path that Spark reads as a pattern."""
_FILE_SCHEME: Final = re.compile(r"file:(//)?(?=/)", re.IGNORECASE)
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})


def renames(spark: SparkSession, path: str) -> bool:
    """Return whether directories under `path` are published by a rename from this process.

    They are if this process and Spark use the same local or mounted file system: in a classic
    session, and with Spark Connect on this machine.
    """
    from pyspark.sql.session import SparkSession as ClassicSession

    if _local(path) is None:
        return False
    if not isinstance(spark, ClassicSession):
        session: Any = spark
        return session.client.host in _LOOPBACK
    default = spark._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")
    return bool(_FILE_SCHEME.match(path)) or default.startswith("file:")


def check_path(what: str, path: Any) -> str:
    """Return a path as text. Raise InvalidType or InvalidInput unless it names exactly one
    directory that is not the root of a file system."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise InvalidType(f"{what} is {path!r}", hint="give the path of a directory as text")
    text = os.fspath(path)
    if not text.strip() or not _SCHEME.sub("", text, count=1).strip("/"):
        raise InvalidInput(
            f"{what} is {text!r}, which is not a directory to write to",
            hint="give one: '/lake/orders', 's3a://lake/orders'",
        )
    if found := PATTERN.search(text):
        raise InvalidInput(
            f"{what} is {text!r}, but Spark treats `{found[0]}` in a path as a pattern",
            hint="give one directory, without any of * ? [ ] { } \\",
        )
    return text


def absolute(spark: SparkSession, path: str) -> str:
    """Return a path that means the same to Spark and to this process, where they share it."""
    from pyspark.sql.session import SparkSession as ClassicSession

    if _SCHEME.match(path) or os.path.isabs(path) or not renames(spark, path):
        return path
    if isinstance(spark, ClassicSession):
        jvm: Any = spark._jvm
        return os.path.join(jvm.java.lang.System.getProperty("user.dir"), path)
    return os.path.abspath(path)


def path_digest(spark: SparkSession, path: str) -> str:
    """Return a digest that identifies a directory, however its path is written, if this process can
    resolve it."""
    place = absolute(spark, path)
    return digest(_followed(place) if renames(spark, place) else place.rstrip("/"))


def without_links(directory: str) -> str:
    """Return the canonical path of a directory in a local file system, as records have it."""
    scheme = "file:" if _FILE_SCHEME.match(directory) else ""
    return scheme + _followed(directory)


def is_inside(spark: SparkSession, path: str, other: str) -> bool:
    """Return whether a path is the other one, or below it."""
    one, around = (absolute(spark, given) for given in (path, other))
    if renames(spark, one) and renames(spark, around):
        one, around = _followed(one), _followed(around)
    else:
        one, around = _local(one) or one, _local(around) or around
    return f"{one.rstrip('/')}/".startswith(f"{around.rstrip('/')}/")


def is_same(spark: SparkSession, path: str, other: str) -> bool:
    """Return whether two paths are the same directory."""
    return is_inside(spark, path, other) and is_inside(spark, other, path)


def unseen(spark: SparkSession, place: str) -> list[str]:
    """Return the directories below `place` in a local file system that Spark silently skips or
    misreads, because its JVM cannot decode their names."""
    if not renames(spark, place) or encoding_of_names(spark) == "UTF-8":
        return []
    walk = os.walk(local_path(place))
    return [f"{parent}/{one}/" for parent, names, _ in walk for one in names if not one.isascii()]


def encoding_of_names(spark: SparkSession) -> str:
    """Return the encoding that Spark's JVM uses for the names of local files."""
    from pyspark.sql.session import SparkSession as ClassicSession

    name = "sun.jnu.encoding"
    if isinstance(spark, ClassicSession):
        jvm: Any = spark._jvm
        return str(jvm.java.lang.System.getProperty(name)).upper()
    [row] = spark.sql(f"SELECT java_method('java.lang.System', 'getProperty', '{name}')").collect()
    return str(row[0]).upper()


def _local(path: str) -> str | None:
    """Return the path as seen by this process; None for a path of another file system."""
    found = _FILE_SCHEME.match(path)
    if found is None and _SCHEME.match(path):
        return None
    return os.path.abspath(path[found.end() :] if found else path)


def _followed(path: str) -> str:
    """Return the path of a directory that this process sees, with links resolved."""
    return os.path.realpath(local_path(path))


def local_path(directory: str) -> str:
    local = _local(directory)
    if local is None:
        raise InvalidInput(
            f"{directory} cannot be published by a rename: it is not in a local file system",
            hint="check holdfast.spark.paths.renames(spark, path) first",
        )
    return local


def digest(text: str) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=6).hexdigest()
