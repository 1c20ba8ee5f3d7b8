"""Processes of a project by kind, to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psutil

MARK = "CHAOS_PROJECT"


class Project:
    """Directory of DAG files. Its processes and their children are marked in their environment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mark = uuid4().hex

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a `holdfast` command, whose output goes to a file."""
        with open(self.directory / "output.txt", "ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "holdfast", *arguments],
                cwd=self.directory,
                env=os.environ | {MARK: self.mark, "HOLDFAST__API__PORT": "0"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def output(self) -> str:
        return (self.directory / "output.txt").read_text(errors="replace")

    def processes(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark:
                    yield process

    def find(self, kind: str) -> psutil.Process | None:
        """Return a process of that kind, or None."""
        for process in self.processes():
            with suppress(psutil.Error):
                if _kind_of(process) == kind:
                    return process
        return None

    def kill(self, kind: str, timeout: float) -> bool:
        """Kill the first process of that kind that is found within that many seconds."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            victim = self.find(kind)
            if victim is not None:
                with suppress(psutil.NoSuchProcess):
                    victim.send_signal(signal.SIGKILL)
                    return True
            time.sleep(0.02)
        return False

    def wait_until(self, holds: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not holds():
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.1)

    def leftovers(self, timeout: float = 15) -> list[str]:
        """Return the processes that still run after that many seconds."""
        deadline = time.monotonic() + timeout
        while (left := [*self.processes()]) and time.monotonic() < deadline:
            time.sleep(0.1)
        names = []
        for process in left:
            with suppress(psutil.Error):
                names.append(" ".join(process.cmdline()))
                process.kill()
        return names


def _kind_of(process: psutil.Process) -> str:
    words = process.cmdline()
    if process.name() == "java":
        return "spark"
    if "holdfast.runner.supervisor" in words:
        return "supervisor"
    if "holdfast.runner.launcher" in words:
        parent = process.parent()
        if parent is None or "holdfast.runner.supervisor" in parent.cmdline():
            return "launcher"
        keeps_spark = any(child.name() in ("java", "bash") for child in process.children())
        return "keeper" if keeps_spark else "child"
    for name in ("run", "scheduler", "triggerer", "standalone"):
        if name in words:
            return name
    return "other"
