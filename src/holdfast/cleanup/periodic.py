"""Periodic cleanup of a scheduler, at each `cleanup_interval`, in a thread of its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from threading import Thread

from holdfast import commands as c
from holdfast.cleanup.orphans import OrphanPlan
from holdfast.cleanup.plan import CleanupPlan, can_plan
from holdfast.cleanup.requests import forget_requests
from holdfast.errors import HoldfastError
from holdfast.settings import StateStore
from holdfast.store import Store

log = logging.getLogger("holdfast.cleanup")


class PeriodicCleanup:
    """Deletes expired entries, the state of orphaned assets and old requests at each interval, and
    does what its owner adds."""

    def __init__(self, store: Store, settings: StateStore, *more: Callable[[], None]) -> None:
        self._store = store
        self._settings = settings
        self._work = (self._delete_expired, self._sweep_orphans, self._forget_requests, *more)
        self._next = time.monotonic()
        self._thread: Thread | None = None

    def tick(self) -> None:
        """Start a cleanup if it is due and the previous one has ended."""
        interval = self._settings.cleanup_interval.total_seconds()
        if not interval or time.monotonic() < self._next:
            return
        if self._thread is not None and self._thread.is_alive():
            return
        self._next = time.monotonic() + interval
        self._thread = Thread(target=self._clean, daemon=True)
        self._thread.start()

    def _clean(self) -> None:
        for clean in self._work:
            try:
                clean()
            except HoldfastError as error:  # such as that of a custom backend: the others go on
                log.warning("cleanup failed: %s", error.message)

    def _sweep_orphans(self) -> None:
        grace = timedelta(days=self._settings.orphan_grace_days)
        if swept := OrphanPlan.now(self._store, grace).sweep():
            log.info("removed the state of %d assets that no DAG declares any more", swept)

    def _forget_requests(self) -> None:
        forget_requests(self._store)

    def _delete_expired(self) -> None:
        if not can_plan(self._store):
            self._store.execute(c.CleanUpBackend())
            return
        plan = CleanupPlan.now(self._store)
        if gone := sum(plan.delete(self._settings.state_cleanup_batch_size)):
            log.info("removed %d expired entries", gone)
