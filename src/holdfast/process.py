"""Identity, liveness, signals and protection of processes on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Final

from holdfast.model.run import Process

MARK = "HOLDFAST_LAUNCHER"
"""Environment variable that identifies the launcher of a task's process."""


PRIVATE: Final = 0o700
"""The mode of a directory that only its owner may enter."""
_PR_SET_DUMPABLE = 4
_MOST_QUESTIONS: Final = 3


def identify(pid: int, mark: str = "") -> Process:
    """Return the identity of a process on this machine; `mark` is that of a task's environment."""
    return Process(_host(), pid, _started(pid), mark)


@cache
def this_process() -> Process:
    """Return the identity of the calling process. It is cached, so it is not valid after a fork."""
    return identify(os.getpid())


def has_ended(process: Process) -> bool:
    """Return True only if that is certain: the process was on this machine, and is gone."""
    if process.host != _host():
        return False
    started = _started(process.pid)
    if not started and _exists(process.pid):  # /proc may hide processes (hidepid)
        return False
    return started != process.started


def kill_group(process: Process) -> None:
    """Kill a task's process on this machine and all others of its process group.

    Do nothing unless the environment of the process has the mark that was recorded with it.
    """
    same = process.host == _host() and _started(process.pid) == process.started
    if same and process.mark and _mark(process.pid) == process.mark:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


@cache
def _host() -> str:
    """Return an id of the scope in which a PID is valid: the machine's current boot and container.

    Without /proc it is the host name alone.
    """
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        numbers = os.readlink("/proc/self/ns/pid").strip("pid:[]")
        return f"{socket.gethostname()}/{boot[:8]}/{numbers}"
    return socket.gethostname()


def _mark(pid: int) -> str:
    """Return the mark in a process's environment; empty if there is none or it cannot be read."""
    with suppress(OSError):
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            name, _, text = variable.partition(b"=")
            if name == MARK.encode():
                return text.decode(errors="replace")
    return ""


def _started(pid: int) -> str:
    """Return the start time of a process in the system's own format; empty if it has ended."""
    try:
        # The second field is the program's name and may hold spaces, brackets and any bytes.
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        if Path("/proc/self").exists():
            return ""
        return ask(["/bin/ps", "-o", "lstart=", "-p", str(pid)]).stdout.strip()
    fields = status.rpartition(b")")[2].decode().split()
    return "" if fields[0] == "Z" else fields[19]


def _exists(pid: int) -> bool:
    """Return whether a process has this id and is not known to be a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return not Path(f"/proc/{pid}").exists()


def ask(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program for its output; run it again if something kills it, which says nothing.

    Raise OSError if it cannot be started, and subprocess.SubprocessError if it does not end.
    """
    for _ in range(_MOST_QUESTIONS):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != -signal.SIGKILL:
            break
    return done


def signal_name(number: int) -> str:
    """Return the name of a signal; real-time signals have only numbers."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def call_on_signals(numbers: Iterable[int], act: Callable[[], None]) -> None:
    """Call a function in the main thread when one of the signals arrives.

    SIGHUP counts once, because kernel and shell both send it when a terminal is closed, and not at
    all if the process was started to ignore it, as by nohup. Later output to that terminal is
    discarded.
    """
    terminals = [number for number in (1, 2) if os.isatty(number)]

    def handle(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            signal.signal(number, signal.SIG_IGN)
            for terminal in terminals:
                if not os.isatty(terminal):  # it is closed: every write would fail
                    os.dup2(os.open(os.devnull, os.O_WRONLY), terminal)
        act()

    for number in numbers:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


def hide_this_process() -> None:
    """Let only root trace this process or read its /proc entries, on Linux and until the next exec.

    Call this before any child starts: tasks run as the same user.
    """
    if sys.platform == "linux":
        import ctypes  # imported lazily: most commands do not need it

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    """Return the memory of this machine, or the limit of this process's container."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return installed
    return min(installed, int(limit)) if limit.isdigit() else installed
