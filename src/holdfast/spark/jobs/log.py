"""The log of a driver, as far as it has not been shown yet."""

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
"""How a line begins by which Python or Java names an error."""
_LONGEST: Final = 1000
"""Characters that are shown of one line."""


class DriverLog:
    """New lines each time it is asked, without what Spark says while all goes well."""

    def __init__(self, cluster: Cluster, driver: str) -> None:
        self._cluster = cluster
        self.driver = driver
        self._offsets: dict[str, int | None] = dict.fromkeys(cluster.streams)
        self._begun: dict[str, bytes] = dict.fromkeys(cluster.streams, b"")
        self._last = ""
        self._error = ""

    def new_lines(self) -> Iterator[str]:
        """A log that cannot be read now has no new lines: the job does not depend on it."""
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
        """Return the last error that it showed, or else its last line."""
        return self._error or self._last
