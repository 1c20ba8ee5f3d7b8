"""Messages between a supervisor and its launcher."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Launch(msgspec.Struct, frozen=True, tag="launch"):
    """Order to fork a child; the child's end of the channel is sent along as a descriptor."""

    child: int


class WriteLog(msgspec.Struct, frozen=True, tag="log"):
    """Order to write a child's output to a log; until then the output waits in the pipe."""

    child: int
    path: str
    max_size: int


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """Order to send a signal to a child's process, or SIGKILL to its whole process group."""

    child: int
    signal: int


class PreloadSpark(msgspec.Struct, frozen=True, tag="preload"):
    """Order to import the modules that Spark tasks need."""


Order: TypeAlias = Launch | WriteLog | Kill | PreloadSpark


class Launched(msgspec.Struct, frozen=True, tag="launched"):
    child: int
    pid: int


class NotLaunched(msgspec.Struct, frozen=True, tag="refused"):
    """Notice that no child could be forked: there are too many processes or open files."""

    child: int
    reason: str


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    """Notice of a child's end, with its exit status or the negative number of its signal."""

    child: int
    status: int


class NotLogged(msgspec.Struct, frozen=True, tag="unlogged"):
    """Notice that a child's log cannot be written; its output is discarded."""

    child: int
    reason: str


Notice: TypeAlias = Launched | NotLaunched | Exited | NotLogged
