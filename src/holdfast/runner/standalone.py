"""`holdfast standalone`: all long-running parts, each in its own process."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from threading import Event

from holdfast.environment import start_hidden
from holdfast.portable.backoff import Backoff

SHORTEST_LIFE = 5.0
"""Seconds. A part that ends sooner is restarted with backoff."""
LONGEST_PAUSE = 30.0
ROUND = 0.2

log = logging.getLogger("holdfast.standalone")


class _Part:
    """A `holdfast` command, restarted when it ends."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = arguments
        self._backoff = Backoff(1.0, LONGEST_PAUSE)
        self._start()

    def _start(self) -> None:
        # In its own process group, so that Ctrl-C reaches it only once, through its parent.
        self.popen = start_hidden(
            [sys.executable, "-m", "holdfast", *self._arguments, "--with-parent", str(os.getpid())],
            start_new_session=True,
        )
        self._started = time.monotonic()
        self._start_at: float | None = None

    def tick(self) -> None:
        if self.popen.poll() is None:
            return
        now = time.monotonic()
        if self._start_at is None:
            pause = 0.0
            if now < self._started + SHORTEST_LIFE:
                pause = self._backoff.pause()
            else:
                self._backoff.reset()
            self._start_at = now + pause
            name, status = self._arguments[0], self.popen.returncode
            log.warning("%s ended (%s); restarting in %.0f s", name, status, pause)
        elif now >= self._start_at:
            self._start()


def run(parts: Sequence[Sequence[str]], stopping: Event) -> None:
    """Run the parts until `stopping` is set; then send SIGTERM to each and wait for their end."""
    running: list[_Part] = []
    try:
        running += map(_Part, parts)
        while not stopping.wait(ROUND):
            for part in running:
                part.tick()
    finally:
        for part in running:
            part.popen.send_signal(signal.SIGTERM)
        for part in running:
            part.popen.wait()
