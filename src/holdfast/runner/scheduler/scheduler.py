"""`holdfast scheduler`: creates runs when they are due, and carries out all runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from threading import Event
from typing import Final, NamedTuple

from holdfast import commands as c
from holdfast.actions.retention import apply_retention
from holdfast.cleanup.periodic import PeriodicCleanup
from holdfast.errors import (
    Conflict,
    HoldfastError,
    InvalidInput,
    NotFound,
    StoreUnavailable,
)
from holdfast.model import timetable
from holdfast.model.dag import DagSpec, OnAssets
from holdfast.model.run import CARRIED_OUT, DagInfo, Run, RunKind, RunState, Unfinished
from holdfast.model.service import ServiceKind
from holdfast.process import has_ended
from holdfast.runner.scheduler.conductor import Conductor
from holdfast.runner.scheduler.dag_files import DagDirectory
from holdfast.runner.scheduler.journal import Journal
from holdfast.runner.scheduler.known_dags import KnownDags
from holdfast.runner.service.disk_watch import DiskWatch
from holdfast.runner.service.sign_of_life import SignOfLife
from holdfast.settings import Settings, without_password
from holdfast.version import __version__

ROUND = 1.0
"""Interval in seconds between checks of files, schedules and queued runs."""
SHORTEST_ROUND = 0.2
"""Shortest interval in seconds, to start a run when it is due."""
ASKED_ANEW: Final = 60.0
"""Interval in seconds between questions for new events that nothing seems to have changed."""
SEEN_BY_OTHERS: Final = timedelta(seconds=30)
"""Time after another scheduler has had a DAG during which its runs are left to that scheduler."""
_PAGE: Final = 1000

log = logging.getLogger("holdfast.scheduler")


class _Upcoming(NamedTuple):
    """When the schedule of a DAG starts its next run."""

    dag: DagSpec
    until: datetime | None
    """The logical date of the newest run that was started."""
    at: datetime | None
    """None: never."""


class Scheduler:
    """Creates runs and carries them out.

    All its state comes from the files and the store, so that another scheduler can take over.
    """

    def __init__(self, settings: Settings, files: DagDirectory) -> None:
        log.info(
            "holdfast %s starts: DAG files in %s, database %s",
            *(__version__, files, without_password(settings.database_url)),
        )
        journal = Journal(logged=True)
        self._conductor = Conductor(settings, journal)
        self._store = self._conductor.store
        self._life = SignOfLife(self._store, ServiceKind.SCHEDULER, journal.figures)
        self._disk = DiskWatch(settings, ServiceKind.SCHEDULER)
        self._known = KnownDags(self._conductor, files, settings.dags.stale_after)
        retention = partial(apply_retention, self._store, settings)
        self._cleanup = PeriodicCleanup(self._store, settings.state_store, retention)
        self._upcoming: dict[str, _Upcoming] = {}
        self._without_news: dict[str, tuple[object, ...]] = {}
        """DAGs that had no new events of their assets, and what changes before they may have."""
        self._waiting: dict[str, str] = {}
        """DAGs whose waiting runs were logged, and the reason."""

    def run(self, stopping: Event) -> None:
        """Schedule runs until `stopping` is set; then interrupt and release them."""
        next_round = 0.0
        with ExitStack() as closing:
            closing.callback(log.info, "stopped")
            closing.callback(self._store.close)
            closing.callback(self._life.end)
            closing.callback(self._disk.stop)
            closing.callback(self._conductor.alerting.stop)
            closing.callback(self._conductor.stop)
            closing.callback(log.info, "stopping: running tasks are interrupted, and runs released")
            self._conductor.alerting.start()
            self._disk.start()
            while not stopping.is_set():
                try:
                    self._life.tick()
                    if time.monotonic() >= next_round:
                        next_round = time.monotonic() + ROUND
                        self._poll()
                        due = time.monotonic() + max(SHORTEST_ROUND, self._seconds_until_due())
                        next_round = min(next_round, due)
                    self._conductor.turn(max(0.0, next_round - time.monotonic()))
                    self._known.save()
                except StoreUnavailable as error:
                    log.warning("%s; retrying", error.message)
                    stopping.wait(ROUND)

    def _poll(self) -> None:
        self._known.look()
        if self._known.complete:
            infos = {info.dag_id: info for info in self._store.execute(c.ListDags(specs=False))}
            self._create_runs(infos)
            self._adopt_runs(infos)
        self._cleanup.tick()

    def _create_runs(self, infos: dict[str, DagInfo]) -> None:
        unfinished = {one.dag_id: one for one in self._store.execute(c.UnfinishedRuns())}
        on_assets = any(isinstance(dag.schedule, OnAssets) for dag in self._known.dags.values())
        changes = self._store.execute(c.AssetChanges()) if on_assets else None
        period = time.monotonic() // ASKED_ANEW
        for dag_id, dag in self._known.dags.items():
            info = infos.get(dag_id)
            if info is None or info.paused:
                self._upcoming.pop(dag_id, None)
                continue
            try:
                if isinstance(dag.schedule, OnAssets):
                    if timetable.is_open(dag, datetime.now(UTC)):
                        self._create_asset_run(dag, (changes, info.saved_at, period))
                else:
                    busy = unfinished.get(dag_id, Unfinished(dag_id, 0, 0))
                    free = dag.max_active_runs - busy.queued - busy.running
                    self._create_scheduled_runs(dag, info, free)
            except StoreUnavailable:
                raise
            except HoldfastError as error:
                # For example, another scheduler was quicker; no DAG must stop the others.
                log.warning("no run of %s was created: %s", dag_id, error.message)

    def _create_scheduled_runs(self, dag: DagSpec, info: DagInfo, most: int) -> None:
        until = info.scheduled_until
        while not self._is_early(dag, until, info) and most > 0:
            most -= 1
            slot = timetable.due(dag, until, datetime.now(UTC), info.created_at)
            if slot is None:
                return
            until = slot.logical_date
            run_id = timetable.run_id(RunKind.SCHEDULED, until)
            self._store.execute(
                c.CreateRun(
                    dag_id=dag.dag_id,
                    run_id=run_id,
                    kind=RunKind.SCHEDULED,
                    logical_date=until,
                    data_interval_start=slot.data_interval_start,
                    data_interval_end=slot.data_interval_end,
                    schedule=True,
                )
            )
            log.info("%s is due: created run %s", dag.dag_id, run_id)

    def _is_early(self, dag: DagSpec, until: datetime | None, info: DagInfo) -> bool:
        """Return whether the next run of a DAG is not due yet, which is computed once for each."""
        known, now = self._upcoming.get(dag.dag_id), datetime.now(UTC)
        if known is None or known.dag is not dag or known.until != until:
            at = timetable.next_after(dag, until, now, info.created_at)
            known = self._upcoming[dag.dag_id] = _Upcoming(dag, until, at)
        return known.at is None or known.at > now

    def _seconds_until_due(self) -> float:
        """Return the seconds until the next run is due that is not due yet."""
        now = datetime.now(UTC)
        dates = [one.at for one in self._upcoming.values() if one.at is not None and one.at > now]
        return (min(dates) - now).total_seconds() if dates else ROUND

    def _create_asset_run(self, dag: DagSpec, state: tuple[object, ...]) -> None:
        """Create a run if its assets have new events, which is asked once for each `state`."""
        if self._without_news.get(dag.dag_id) == state:
            return
        run_id = timetable.run_id(RunKind.ASSET, datetime.now(UTC))
        run = self._store.execute(c.CreateAssetRun(dag.dag_id, run_id))
        if run is not None:
            log.info("assets of %s have changed: created run %s", dag.dag_id, run_id)
        else:
            self._without_news[dag.dag_id] = state

    def _adopt_runs(self, infos: dict[str, DagInfo]) -> None:
        now = datetime.now(UTC)
        unfinished = {one.dag_id: one for one in self._store.execute(c.UnfinishedRuns())}
        for run in self._running_runs() if unfinished else ():
            dag = self._known.dags.get(run.dag_id)
            if dag is not None and not self._is_held(run, now):
                self._adopt(run, dag)
        for dag_id, dag in self._known.dags.items():
            one = unfinished.get(dag_id)
            if one is not None and one.queued and one.running < dag.max_active_runs:
                oldest = c.ListRuns(
                    dag_id=dag_id,
                    states=(RunState.QUEUED,),
                    kinds=CARRIED_OUT,
                    limit=min(dag.max_active_runs - one.running, _PAGE),
                    oldest_first=True,
                )
                for run in self._store.execute(oldest):
                    if not self._is_held(run, now):
                        self._adopt(run, dag)
        self._log_waiting(unfinished, infos, now)

    def _running_runs(self) -> Iterator[Run]:
        """Yield the running runs of all DAGs, read in pages as there may be any number of them."""
        for offset in count(0, _PAGE):
            page = self._store.execute(
                c.ListRuns(
                    states=(RunState.RUNNING,),
                    kinds=CARRIED_OUT,
                    limit=_PAGE,
                    offset=offset,
                    oldest_first=True,
                )
            )
            yield from page
            if len(page) < _PAGE:
                return

    def _log_waiting(
        self, unfinished: dict[str, Unfinished], infos: dict[str, DagInfo], now: datetime
    ) -> None:
        """Log once each DAG that has runs but no valid file, here or at another scheduler."""
        waiting = {
            dag_id: self._known.why_without(dag_id)
            for dag_id in unfinished
            if dag_id not in self._known.dags
            and (self._known.broken_file(dag_id) or not _seen_lately(infos.get(dag_id), now))
        }
        for dag_id, why in waiting.items():
            if self._waiting.get(dag_id) != why:
                number = unfinished[dag_id].queued + unfinished[dag_id].running
                runs, wait = ("run", "waits") if number == 1 else ("runs", "wait")
                log.warning("%s %s of DAG %s %s: %s", number, runs, dag_id, wait, why)
        self._waiting = waiting

    def _is_held(self, run: Run, now: datetime) -> bool:
        """Return whether a process seems to hold the run; only a claim is certain."""
        if (run.dag_id, run.run_id) in self._conductor.runs:
            return True
        if run.owner is None or run.leased_until is None or run.leased_until <= now:
            return False
        return not has_ended(run.owner)

    def _adopt(self, run: Run, dag: DagSpec) -> None:
        try:
            self._conductor.adopt(run, dag, dag.max_active_runs)
        except (Conflict, InvalidInput, NotFound) as error:  # another process has it, or had it
            log.info("%s", error.message)


def _seen_lately(info: DagInfo | None, now: datetime) -> bool:
    if info is None or not info.file or info.seen_at is None:
        return False
    return info.seen_at > now - SEEN_BY_OTHERS
