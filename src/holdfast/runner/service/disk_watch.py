"""Warnings of a disk on which the output of tasks has no room any more."""

from __future__ import annotations

import logging
from threading import Event, Thread
from typing import Final

from holdfast.model.service import ServiceKind
from holdfast.server.disk import LEAST_FREE, free_space
from holdfast.settings import Settings

INTERVAL: Final = 15.0
"""Seconds between two looks at the disk."""


class DiskWatch:
    """Logs when the disk of `core.home` becomes full, and when it has space again.

    A full disk ends no task, but what they print is lost. The metrics have the disk of the server,
    which may be on another machine. It looks in a thread, because a network drive may hang.
    """

    def __init__(self, settings: Settings, kind: ServiceKind) -> None:
        self._settings = settings
        self._log = logging.getLogger(f"holdfast.{kind}")
        self._full = False
        self._stopping = Event()

    def start(self) -> None:
        """Begin to look."""
        Thread(target=self._look_on, name="disk", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()

    def look(self) -> None:
        """Log what has changed since the last look."""
        free = free_space(self._settings).get("home")
        if free is None or (free < LEAST_FREE) is self._full:
            return
        self._full = not self._full
        home, megabytes = self._settings.home, LEAST_FREE // 2**20
        if self._full:
            text = "less than %d MB are free for %s: when it is full, what tasks print is lost"
            self._log.warning(text, megabytes, home)
        else:
            self._log.warning("%d MB or more are free for %s again", megabytes, home)

    def _look_on(self) -> None:
        while True:
            self.look()
            if self._stopping.wait(INTERVAL):
                return
