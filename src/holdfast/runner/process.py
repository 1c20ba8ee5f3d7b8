"""Processes: telling one from a later one with the same number, and whether it still lives."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

from holdfast.run import Process


def identify(pid: int) -> Process:
    """A process of this machine."""
    return Process(_host(), pid, _started(pid))


@cache
def this_process() -> Process:
    """The process that asks, for as long as it does not fork."""
    return identify(os.getpid())


def has_ended(process: Process) -> bool:
    """True where that is certain: it was a process of this machine, and is gone."""
    return process.host == _host() and _started(process.pid) != process.started


def kill_group(process: Process) -> None:
    """End what is left of a process of this machine and of all that it started."""
    if process.host == _host() and _started(process.pid) == process.started:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


@cache
def _host() -> str:
    """Where a process number means the same process: this machine since it was last started, and
    of it this container."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        numbers = os.readlink("/proc/self/ns/pid").strip("pid:[]")
        return f"{socket.gethostname()}/{boot[:8]}/{numbers}"
    return socket.gethostname()


def _started(pid: int) -> str:
    """When a process started, in whatever form the system tells it; empty where there is none."""
    try:
        # The second field is the program's name and may hold spaces and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        if Path("/proc/self").exists():
            return ""
        listing = subprocess.run(
            ["/bin/ps", "-o", "lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        return listing.stdout.strip()
    return "" if fields[0] == "Z" else fields[19]
