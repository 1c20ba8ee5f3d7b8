"""Incremental reading of a driver's log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from holdfast.errors import HoldfastError
from holdfast.spark.jobs.clusters import Cluster

_CHATTER: Final = re.compile(
    r"^\s+(at|\.\.\.) |^WARNING: |^Using |^NOTE: |^Launch Command: |^=+$|^\s*$| (INFO|DEBUG) "
    r"| java\.lang\.reflect\.InvocationTargetException$"
    r"| org\.apache\.spark\.SparkUserAppException: "  # a Python application has ended
)
_ERROR: Final = re.compile(
    r'(Caused by: |Exception in thread "[^"]*" )?([\w$]+\.)*[A-Z][\w$]*(: |$)', re.ASCII
)
"""The beginning of a line in which Python or Java names an error."""
_LONGEST: Final = 1000
"""Maximum number of characters shown of one line."""


class DriverLog:
    """The lines of a driver's log that are new since the last call, without Spark's routine
    messages."""

    def __init__(self, cluster: Cluster, driver: str) -> None:
        self._cluster = cluster
        self.driver = driver
        self._offsets: dict[str, int | None] = dict.fromkeys(cluster.streams)
        self._begun: dict[str, bytes] = dict.fromkeys(cluster.streams, b"")
        self._last = ""
        self._error = ""

    def new_lines(self) -> Iterator[str]:
        """Yield the new lines. A log that cannot be read now has none: the job does not depend on
        it."""
        for stream in self._offsets:
            while data := self._more(stream):
                *whole, self._begun[stream] = (self._begun[stream] + data).split(b"\n")
                for line in whole:
                    text = line.decode(errors="replace").rstrip()[:_LONGEST]
                    if not _CHATTER.search(text):
                        self._last = text
                        if _ERROR.match(text):
                            self._error = text
                        yield text

    def _more(self, stream: str) -> bytes:
        try:
            data, end = self._cluster.read(self.driver, stream, self._offsets[stream])
        except HoldfastError:
            return b""
        self._offsets[stream] = end
        return data

    def reason(self) -> str:
        """Return the last error in the log, or else its last line."""
        return self._error or self._last
