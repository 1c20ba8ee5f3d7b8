"""What a supervisor and its launcher tell each other."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Launch(msgspec.Struct, frozen=True, tag="launch"):
    """Fork a child. The end of the channel that it shall have comes along as a descriptor."""

    child: int


class WriteLog(msgspec.Struct, frozen=True, tag="log"):
    """Where a child's output goes. Until this is known, it waits in the pipe."""

    child: int
    path: str
    limit: int


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """Send a signal to a child's process, or with SIGKILL to all of its group."""

    child: int
    signal: int


class PreloadSpark(msgspec.Struct, frozen=True, tag="preload"):
    """Load what Spark tasks need."""


Order: TypeAlias = Launch | WriteLog | Kill | PreloadSpark


class Launched(msgspec.Struct, frozen=True, tag="launched"):
    child: int
    pid: int


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    """A child's end: its exit status, or minus the number of the signal that ended it."""

    child: int
    status: int


Notice: TypeAlias = Launched | Exited
