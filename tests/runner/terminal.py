"""Command at its own terminal, on which Ctrl-C reaches all of its processes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time

from project import Project


class Terminal:
    """Use it in a `with` statement; leaving it ends the command."""

    def __init__(self, project: Project, *args: str) -> None:
        master, slave = pty.openpty()
        self._master = os.fdopen(master, "rb+", buffering=0)
        self._seen = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *args],
            cwd=project.directory,
            env=project.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        """Close the terminal, as by closing its window."""
        self._master.close()

    @property
    def screen(self) -> str:
        """Return all output so far, without colours."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self._seen.decode(errors="replace"))

    def type(self, text: str) -> None:
        self._master.write(text.encode())

    def wait_for(self, text: str, timeout: float = 30) -> None:
        deadline = time.monotonic() + timeout
        while text not in self.screen:
            assert self._read(deadline - time.monotonic()), f"no {text!r} in:\n{self.screen}"

    def finish(self, timeout: float = 30) -> int:
        """Wait for its end, and return its exit status."""
        deadline = time.monotonic() + timeout
        while self._read(deadline - time.monotonic()):
            pass
        return self.process.wait(timeout=max(deadline - time.monotonic(), 1))

    def _read(self, timeout: float) -> bool:
        """Read some of the output; return False at its end."""
        if not select.select([self._master], [], [], max(timeout, 0))[0]:
            return False
        try:
            data = os.read(self._master.fileno(), 65536)
        except OSError:
            return False  # The other end is closed: a terminal on Linux reports it like this.
        self._seen += data
        return bool(data)
