"""Deleting the objects that entries have left, where the workers' credentials are."""

from __future__ import annotations

import logging
import time
from threading import Event, Thread

from holdfast.errors import HoldfastError
from holdfast.store import Store
from holdfast.stores.offload.configuration import Offloading

INTERVAL = 30.0
"""Seconds after which the queue is looked at in any case, and for which a turn in which objects
could not be deleted goes on: their storage may be away."""
LAST_TURN = 10.0
"""Seconds that are left for it at the end."""

log = logging.getLogger("holdfast.supervisor")


class Purger:
    """A thread that empties the purge queue: after each attempt, and now and then."""

    def __init__(self, store: Store, offloading: Offloading) -> None:
        self._store = offloading.opened(store)
        self._woken = Event()
        self._stopping = False
        self._thread = Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """There may be something to delete."""
        self._woken.set()

    def stop(self) -> None:
        """Look once more, and end."""
        self._stopping = True
        self._woken.set()
        self._thread.join(LAST_TURN)

    def _run(self) -> None:
        while not self._stopping:
            self._woken.wait(INTERVAL)
            self._woken.clear()
            self._empty()

    def _empty(self) -> None:
        began = time.monotonic()
        failed = 0
        try:
            # What fails is not due again for a while, and does not keep others waiting.
            while (done := self._store.purge()).more:
                failed += done.failed
                passed = time.monotonic() - began
                if (self._stopping and passed > LAST_TURN) or (failed and passed > INTERVAL):
                    return
        except HoldfastError as error:
            log.warning("objects are left to be purged: %s", error.message)
        except Exception:
            log.exception("objects are left to be purged")
