"""Purge of unreferenced objects, in the supervisor because it has the workers' credentials."""

from __future__ import annotations

import logging
import time
from threading import Event, Thread

from holdfast.errors import HoldfastError
from holdfast.store import Store
from holdfast.stores.offload.configuration import Offloading

INTERVAL = 30.0
"""Seconds after which the queue is checked in any case, and after which a pass ends in which
objects could not be deleted, because the storage may be unavailable."""
LAST_PASS = 10.0
"""Time limit in seconds of the last pass, when the supervisor stops."""

log = logging.getLogger("holdfast.supervisor")


class Purger:
    """A thread that empties the purge queue after each attempt, and periodically."""

    def __init__(self, store: Store, offloading: Offloading) -> None:
        self._store = offloading.opened(store)
        self._woken = Event()
        self._stopping = False
        self._thread = Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Wake the thread, because there may be something to delete."""
        self._woken.set()

    def stop(self) -> None:
        """Empty the queue once more, and end the thread."""
        self._stopping = True
        self._woken.set()
        self._thread.join(LAST_PASS)

    def _run(self) -> None:
        last = False
        while not last:
            self._woken.wait(INTERVAL)
            self._woken.clear()
            last = self._stopping
            self._empty()

    def _empty(self) -> None:
        began = time.monotonic()
        failed = 0
        try:
            # A failed deletion is not due again for a while, and does not delay others.
            while (done := self._store.purge()).more:
                failed += done.failed
                passed = time.monotonic() - began
                if (self._stopping and passed > LAST_PASS) or (failed and passed > INTERVAL):
                    return
        except HoldfastError as error:
            log.warning("objects could not be purged: %s", error.message)
        except Exception:
            log.exception("objects could not be purged")
