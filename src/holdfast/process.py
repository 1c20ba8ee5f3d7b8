"""Processes of this machine: identity, life, secrecy and log."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from holdfast.model.run import Process

MARK = "HOLDFAST_LAUNCHER"
"""The variable by which a task's process shows which launcher it comes from."""


PRIVATE: Final = 0o700
"""The mode of a directory that only its owner may enter."""
_PR_SET_DUMPABLE = 4


def identify(pid: int, mark: str = "") -> Process:
    """A process of this machine, and the mark in its environment if it is a task's."""
    return Process(_host(), pid, _started(pid), mark)


@cache
def this_process() -> Process:
    """The process that asks, for as long as it does not fork."""
    return identify(os.getpid())


def has_ended(process: Process) -> bool:
    """True where that is certain: it was a process of this machine, and is gone."""
    return process.host == _host() and _started(process.pid) != process.started


def kill_group(process: Process) -> None:
    """Kill what is left of a task's process on this machine and of all that it started.

    Leave alone what does not show the mark that was remembered with the process.
    """
    same = process.host == _host() and _started(process.pid) == process.started
    if same and process.mark and _mark(process.pid) == process.mark:
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


def _mark(pid: int) -> str:
    """Return the mark in a process's environment; empty where there is none to be read."""
    with suppress(OSError):
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            name, _, text = variable.partition(b"=")
            if name == MARK.encode():
                return text.decode(errors="replace")
    return ""


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


def hide_this_process() -> None:
    """Let only root read what /proc shows of this process, or trace it. Linux; until the next exec.

    To be called before any child starts: a task runs as the same user.
    """
    if sys.platform == "linux":
        import ctypes  # loaded when needed: most commands do without

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def log_to_stderr() -> None:
    """Write this process's log to standard error."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("holdfast").setLevel(logging.INFO)
