"""`holdfast triggerer`: runs the watchers of all assets that DAGs name."""

from __future__ import annotations

import logging
import time
from datetime import datetime
from threading import Event
from typing import TypeAlias

from holdfast import commands as c
from holdfast.connection import open_store
from holdfast.errors import StoreUnavailable
from holdfast.model.dag import WatcherSpec, spec_of
from holdfast.model.families import WATCHER_FAILURES
from holdfast.model.figures import Figures
from holdfast.model.service import ServiceKind
from holdfast.runner.protocol.orders import Unwatch, WatchAsset, WatcherFailed
from holdfast.runner.service.disk_watch import DiskWatch
from holdfast.runner.service.sign_of_life import SignOfLife
from holdfast.runner.service.supervisor_link import SupervisorLink
from holdfast.settings import Settings, without_password
from holdfast.version import __version__

ROUND = 1.0

log = logging.getLogger("holdfast.triggerer")


_Wanted: TypeAlias = tuple[WatchAsset, datetime]
"""The order for a watcher, and when its DAG was saved; a change restarts the watcher."""


class Triggerer:
    def __init__(self, settings: Settings) -> None:
        database = without_password(settings.database_url)
        log.info("holdfast %s starts: database %s", __version__, database)
        self._supervisor = SupervisorLink(settings)
        self._store = open_store(settings, retry_window=settings.core.retry_window)
        self._figures = Figures()
        self._life = SignOfLife(self._store, ServiceKind.TRIGGERER, self._figures)
        self._disk = DiskWatch(settings, ServiceKind.TRIGGERER)
        self._running: dict[WatcherSpec, _Wanted] = {}

    def run(self, stopping: Event) -> None:
        """Have the supervisor run watchers until `stopping` is set."""
        next_round = 0.0
        self._disk.start()
        try:
            while not stopping.is_set():
                if time.monotonic() >= next_round:
                    next_round = time.monotonic() + ROUND
                    self._poll()
                for notice in self._supervisor.notices(max(0.0, next_round - time.monotonic())):
                    if notice is None:
                        self._running.clear()
                    elif isinstance(notice, WatcherFailed):
                        watcher = notice.watcher
                        self._figures.count(WATCHER_FAILURES, watcher.asset.name, watcher.name)
        finally:
            log.info("stopping: %d watchers are asked to end", len(self._running))
            self._supervisor.stop()
            self._disk.stop()
            self._life.end()
            self._store.close()
            log.info("stopped")

    def _poll(self) -> None:
        try:
            self._life.tick()
            wanted = self._wanted()
        except StoreUnavailable as error:
            log.warning("%s; retrying", error.message)
            return
        for spec, how in list(self._running.items()):
            if wanted.get(spec) != how:
                log.info("stopping watcher `%s` of asset `%s`", spec.name, spec.asset.name)
                self._supervisor.order(Unwatch(spec))
                del self._running[spec]
        for spec, how in wanted.items():
            if spec not in self._running:
                self._supervisor.order(how[0])
                self._running[spec] = how

    def _wanted(self) -> dict[WatcherSpec, _Wanted]:
        """Return the watchers of active DAGs, each once however many DAGs name its asset."""
        wanted: dict[WatcherSpec, _Wanted] = {}
        for info in self._store.execute(c.ListDags()):
            if not info.paused and info.stale_at is None:
                spec = spec_of(info)
                for watcher in spec.watchers:
                    order = WatchAsset(spec.file, info.dag_id, watcher)
                    wanted.setdefault(watcher, (order, info.saved_at))
        return wanted
