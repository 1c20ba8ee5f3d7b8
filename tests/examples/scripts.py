"""The examples as processes, which a test may kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN = "r"
"""Id of the run of an example in a test."""


class Program:
    """Python program in the current directory."""

    def __init__(self, *args: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self.pid = self._process.pid
        self.lines: list[str] = []

    def read_until(self, text: str) -> None:
        """Read its lines up to and with the first that contains the text."""
        for line in self._output:
            self.lines.append(line.rstrip("\n"))
            if text in line:
                return
        raise AssertionError(f"it never said {text!r}: {self.lines}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()

    def stop(self) -> None:
        """Ask it to end, and wait for that."""
        self._process.terminate()
        self.finish()

    def finish(self) -> int:
        """Read the rest; its exit status."""
        if not self._output.closed:
            self.lines += [line.rstrip("\n") for line in self._output]
            self._output.close()
        return self._process.wait()


class Run(Program):
    """`holdfast run` of an example, as run `r`."""

    def __init__(self, name: str, *args: str) -> None:
        file = str(EXAMPLES / f"{name}.py")
        super().__init__("-m", "holdfast", "run", file, "--run-id", RUN, *args)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def wait_until(true: Callable[[], Any], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not so within {seconds} s"
        time.sleep(0.02)
