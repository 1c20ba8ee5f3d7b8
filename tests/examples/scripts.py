"""The examples as processes, which a test may kill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


class Script:
    """An example that runs in the current directory."""

    def __init__(self, name: str, *args: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / f"{name}.py"), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout
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

    def finish(self) -> int:
        """Read the rest; its exit status."""
        self.lines += [line.rstrip("\n") for line in self._output]
        return self._process.wait()
