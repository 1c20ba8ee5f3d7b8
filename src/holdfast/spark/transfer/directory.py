"""The directory of an export, in any file system that Spark writes to."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from holdfast.errors import Conflict, HoldfastError, InvalidInput
from holdfast.spark.paths import PATTERN

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Directory:
    """The files of a directory, by name. Raises InvalidInput for a path that Spark would not take
    literally, and HoldfastError where the file system fails."""

    def __init__(self, spark: SparkSession, given: str) -> None:
        if not given or PATTERN.search(given):
            raise InvalidInput(
                f"{given!r} cannot be used as the directory of an export",
                hint="Spark treats {, }, [, ], *, ? and \\ in a path as a pattern: leave them out",
            )
        # A new FileSystem: Spark's own is shared, and would write no checksums for other users of
        # it.
        jvm: Any = spark._jvm
        self._new: Any = jvm.org.apache.hadoop.fs.Path
        self._read_all: Any = jvm.org.apache.commons.io.IOUtils.toString
        at = self._new(given if _URL.match(given) else os.path.abspath(given))
        conf = spark._jsc.hadoopConfiguration()
        try:
            self._files: Any = jvm.org.apache.hadoop.fs.FileSystem.newInstance(at.toUri(), conf)
            self._files.setWriteChecksum(False)
            self._files.setVerifyChecksum(False)
            self.path: str = self._files.makeQualified(at).toString()
        except Py4JJavaError as error:
            raise _failed(f"{given} cannot be reached", error) from error

    def names(self, under: str = "") -> list[str]:
        """Return the names in the directory, or in one below it, sorted; empty if it does not
        exist."""
        at = self._at(under)
        try:
            if not self._files.exists(at):
                return []
            if not self._files.getFileStatus(at).isDirectory():
                raise InvalidInput(f"{self.path} is a file", hint="name a directory")
            return sorted(status.getPath().getName() for status in self._files.listStatus(at))
        except Py4JJavaError as error:
            raise _failed(f"{self.path} cannot be listed", error) from error

    def read(self, name: str) -> str:
        try:
            stream = self._files.open(self._at(name))
            try:
                return str(self._read_all(stream, "UTF-8"))
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise _failed(f"{self.path}/{name} cannot be read", error) from error

    def write(self, name: str, text: str) -> None:
        """Write a file atomically. Raise Conflict if another process has written it meanwhile, and
        it cannot be replaced in one step."""
        draft = self._at(f"_{name}.{uuid4().hex}")
        try:
            stream = self._files.create(draft, True)
            stream.write(bytearray(text.encode()))
            stream.close()
            if not self._files.rename(draft, self._at(name)):
                raise Conflict(
                    f"another process has written {self.path}/{name} in the meantime",
                    hint="let only one command write to a directory at a time",
                )
        except Py4JJavaError as error:
            raise _failed(f"{self.path}/{name} cannot be written", error) from error
        finally:
            with suppress(Py4JJavaError):
                self._files.delete(draft, False)  # if it was not renamed

    def delete(self, name: str) -> bool:
        """Delete a file, or a directory with its content; return whether it existed."""
        try:
            return bool(self._files.delete(self._at(name), True))
        except Py4JJavaError as error:
            raise _failed(f"{self.path}/{name} cannot be deleted", error) from error

    def close(self) -> None:
        self._files.close()

    def _at(self, name: str) -> Any:
        return self._new(f"{self.path}/{name}" if name else self.path)


def _failed(what: str, error: Py4JJavaError) -> HoldfastError:
    why = str(error.java_exception.getMessage()).partition("\n")[0]
    return HoldfastError(f"{what}: {why}", hint="check that it exists, and its permissions")
