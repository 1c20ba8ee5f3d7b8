"""`holdfast scheduler`: starts runs when they are due, and carries out all that are to be."""

from __future__ import annotations

import logging
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import NamedTuple

from holdfast import run_command as r
from holdfast.cleanup.periodic import PeriodicCleanup
from holdfast.dagspec import DagSpec, OnAssets
from holdfast.errors import (
    Conflict,
    HoldfastError,
    InvalidInput,
    NotFound,
    StoreUnavailable,
)
from holdfast.run import DagInfo, Run, RunKind, RunState
from holdfast.runner import timetable
from holdfast.runner.conductor import Conductor
from holdfast.runner.dagfiles import DagDirectory
from holdfast.runner.orders import FileParsed
from holdfast.runner.process import has_ended
from holdfast.settings import Settings

ROUND = 1.0
"""Seconds from one look at files, schedules and queued runs to the next."""
MOST_ACTIVE = 10_000

log = logging.getLogger("holdfast.scheduler")


class _Refused(NamedTuple):
    """A sound file that does not go together with another, and why."""

    found: FileParsed
    error: str


class Scheduler:
    """Everything that it knows comes from the files and from the store: another may take over."""

    def __init__(self, settings: Settings, directory: Path) -> None:
        self._files = DagDirectory(directory)
        self._conductor = Conductor(settings)
        self._store = self._conductor.store
        self._files.recall(info.file for info in self._store.execute(r.ListFiles()))
        self._cleanup = PeriodicCleanup(self._store, settings.state_store)
        self._dags: dict[str, DagSpec] = {}
        self._awaited: set[str] = set()
        """Files that are being imported."""
        self._unsaved: list[FileParsed] = []
        self._refused: dict[str, _Refused] = {}
        self._gone: set[str] = set()
        """Files that are to be forgotten, unless one that is being imported has their DAGs."""
        self._homeless: set[tuple[str, str]] = set()
        """Runs that were told to wait for a file."""
        self._complete = False
        """Whether every file was imported once; before, a DAG could miss what starts it."""

    def run(self, stopping: Event) -> None:
        """Until told to stop; then what runs is interrupted and let go of."""
        next_round = 0.0
        try:
            while not stopping.is_set():
                try:
                    if time.monotonic() >= next_round:
                        next_round = time.monotonic() + ROUND
                        self._look_around()
                    self._conductor.turn(max(0.0, next_round - time.monotonic()))
                    self._save_files()
                except StoreUnavailable as error:
                    log.warning("%s; trying again", error.message)
                    stopping.wait(ROUND)
        finally:
            self._conductor.close()

    def _look_around(self) -> None:
        self._load_files()
        self._complete |= not self._awaited
        if self._complete:
            self._create_runs()
            self._adopt_runs()
        self._cleanup.tick()

    def _load_files(self) -> None:
        changed, gone = self._files.changes()
        for file in changed:
            self._awaited.add(file)
            self._conductor.parse(file)
        if not self._awaited:
            self._forget_gone()
        for file in gone:
            log.info("%s is gone", file)
            self._forget(file)
        self._gone.update(gone)

    def _forget_gone(self) -> None:
        """A round after they went, or later: a DAG that has moved is then with its new file."""
        if self._gone:
            self._try_refused()
        for file in sorted(self._gone):
            if not Path(file).exists():
                self._store.execute(r.ForgetFile(file))
            self._gone.discard(file)

    def _save_files(self) -> None:
        self._unsaved += self._conductor.parsed()
        while self._unsaved:
            self._save(self._unsaved[0])
            del self._unsaved[0]

    def _save(self, found: FileParsed) -> None:
        self._awaited.discard(found.file)
        if not Path(found.file).exists():
            self._refused.pop(found.file, None)
            return  # deleted meanwhile, which is told as that
        dags, error = found.parsed.dags, found.parsed.error
        if not error:
            gone = tuple(file for file in self._gone if not Path(file).exists())
            try:
                self._store.execute(r.SaveFile(found.file, dags, gone))
            except StoreUnavailable:
                raise
            except HoldfastError as refused:
                error = str(refused)
        before = self._refused.pop(found.file, None)
        if error:
            if before is None or before.error != error:
                log.warning("%s cannot be used:\n%s", found.file, error.rstrip())
                self._store.execute(r.SaveFileError(found.file, error))
            if not found.parsed.error:
                self._refused[found.file] = _Refused(found, error)
            return
        self._forget(found.file)
        self._dags |= {dag.dag_id: dag for dag in dags}
        for active in self._conductor.runs.values():
            active.dag = self._dags.get(active.run.dag_id, active.dag)
        log.info("%s: %s", found.file, ", ".join(dag.dag_id for dag in dags) or "no DAG")
        self._try_refused()

    def _try_refused(self) -> None:
        """Another file has changed, perhaps the one that was in the way."""
        for one in list(self._refused.values()):
            if one.found.file not in self._awaited:
                self._save(one.found)

    def _forget(self, file: str) -> None:
        self._dags = {id: dag for id, dag in self._dags.items() if dag.file != file}

    def _active_runs(self) -> list[Run]:
        """Oldest first, whether their DAG is here or not."""
        active = self._store.execute(
            r.ListRuns(
                states=(RunState.QUEUED, RunState.RUNNING),
                kinds=tuple(kind for kind in RunKind if kind is not RunKind.EXTERNAL),
                limit=MOST_ACTIVE,
            )
        )
        return list(reversed(active))

    def _create_runs(self) -> None:
        known = {info.dag_id: info for info in self._store.execute(r.ListDags())}
        busy = Counter(run.dag_id for run in self._active_runs())
        for dag_id, dag in self._dags.items():
            info = known.get(dag_id)
            if info is None or info.paused:
                continue
            try:
                if isinstance(dag.schedule, OnAssets):
                    self._create_asset_run(dag)
                else:
                    self._create_scheduled_runs(dag, info, dag.max_active_runs - busy[dag_id])
            except StoreUnavailable:
                raise
            except HoldfastError as error:
                # Such as that another scheduler was quicker; no DAG stops the others.
                log.warning("no run of %s was made: %s", dag_id, error.message)

    def _create_scheduled_runs(self, dag: DagSpec, info: DagInfo, most: int) -> None:
        until = self._scheduled_until(info)
        for _ in range(most):
            slot = timetable.due(dag, until, datetime.now(UTC))
            if slot is None:
                return
            until = slot.logical_date
            run_id = timetable.run_id(RunKind.SCHEDULED, until)
            self._store.execute(
                r.CreateRun(
                    dag_id=dag.dag_id,
                    run_id=run_id,
                    kind=RunKind.SCHEDULED,
                    logical_date=until,
                    data_interval_start=slot.data_interval_start,
                    data_interval_end=slot.data_interval_end,
                    schedule=True,
                )
            )
            log.info("%s is due: run %s", dag.dag_id, run_id)

    def _scheduled_until(self, info: DagInfo) -> datetime | None:
        """Of a DAG whose file was away for a while, only its runs tell."""
        if info.scheduled_until is not None:
            return info.scheduled_until
        runs = self._store.execute(
            r.ListRuns(dag_id=info.dag_id, kinds=(RunKind.SCHEDULED,), limit=1)
        )
        return runs[0].logical_date if runs else None

    def _create_asset_run(self, dag: DagSpec) -> None:
        run_id = timetable.run_id(RunKind.ASSET, datetime.now(UTC))
        run = self._store.execute(r.CreateAssetRun(dag.dag_id, run_id))
        if run is not None:
            log.info("assets of %s have changed: run %s", dag.dag_id, run_id)

    def _adopt_runs(self) -> None:
        runs = self._active_runs()
        held = Counter(run.dag_id for run in runs if run.state is RunState.RUNNING)
        now = datetime.now(UTC)
        self._tell_homeless(runs)
        for run in runs:
            dag = self._dags.get(run.dag_id)
            if dag is None or (run.dag_id, run.run_id) in self._conductor.runs:
                continue
            if run.state is RunState.QUEUED and held[run.dag_id] >= dag.max_active_runs:
                continue
            if _is_held(run, now):
                continue
            self._adopt(run, dag)
            held[run.dag_id] += 1

    def _tell_homeless(self, runs: list[Run]) -> None:
        """Once for each run of a DAG that no file has, of this directory or of another one."""
        waiting = {(run.dag_id, run.run_id) for run in runs if run.dag_id not in self._dags}
        if untold := waiting - self._homeless:
            known = {info.dag_id for info in self._store.execute(r.ListDags())}
            for dag_id, run_id in sorted(untold):
                if dag_id not in known:
                    self._homeless.add((dag_id, run_id))
                    log.warning("run %s waits: no DAG file holds its DAG %s", run_id, dag_id)

    def _adopt(self, run: Run, dag: DagSpec) -> None:
        try:
            self._conductor.adopt(run, dag)
        except (Conflict, InvalidInput, NotFound) as error:  # another one has it, or had it
            log.info("%s", error.message)
        else:
            went_on = "goes on" if run.state is RunState.RUNNING else "begins"
            log.info("run %s of %s %s", run.run_id, run.dag_id, went_on)


def _is_held(run: Run, now: datetime) -> bool:
    """Whether another process seems to carry the run out; claiming it tells for certain."""
    if run.owner is None or run.leased_until is None or run.leased_until <= now:
        return False
    return not has_ended(run.owner)
