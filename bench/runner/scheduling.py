"""What a scheduler costs that has much to do, or nothing, and how late it starts a due run."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.runner.empty import LAUNCHER, SUPERVISOR, TASKS
from bench.runner.project import PROGRAM, RunFailed
from holdfast import commands as c
from holdfast.model.run import RunState
from holdfast.stores.sql import SqlStore

SCHEDULER = "scheduler"

_PATIENCE = 600.0
_INTERVAL = 0.1
_EMPTY = """\
from holdfast.sdk import DAG, task

with DAG("{dag_id}", max_active_tasks=16):

    @task
    def nothing(number):
        pass

    nothing.expand(number=list(range({instances})))
"""
_IDLE = """\
from holdfast.sdk import DAG, Asset, task

with DAG("{dag_id}", schedule={schedule}):

    @task
    def nothing():
        pass

    nothing()
"""
_SCHEDULES = ("None", '"0 3 * * *"', '"@hourly"', '[Asset("a")]')
_OFTEN = """\
from datetime import timedelta
from holdfast.sdk import DAG, task

with DAG("often", schedule=timedelta(seconds=3), max_active_runs=2):

    @task
    def nothing():
        pass

    nothing()
"""


class Busy(NamedTuple):
    instances: int
    seconds: float
    """From the first attempt to the last end."""
    cpu: dict[str, float]
    """Seconds of processor time, by kind of process."""
    most_tasks: int
    """Task processes at once."""
    most_memory: float
    """MB of all its processes at once, shared memory counted once."""


class Site:
    """A directory with DAG files, an embedded store, and a scheduler."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.dags = directory / "dags"
        self.dags.mkdir(parents=True)

    def write(self, dag_id: str, text: str) -> None:
        (self.dags / f"{dag_id}.py").write_text(text)

    @contextmanager
    def scheduler(self, count: int) -> Iterator[tuple[psutil.Process, SqlStore]]:
        """Run a scheduler, with the block once it knows all DAGs, and for as long as that takes."""
        log = (self.directory / "scheduler.log").open("w")
        command = [PROGRAM, "scheduler", self.dags]
        with log, subprocess.Popen(command, cwd=self.directory, stdout=log, stderr=log) as popen:
            try:
                database = self.directory / ".holdfast" / "holdfast.db"
                wait_until(database.exists)
                with SqlStore(f"sqlite:///{database}") as store:
                    wait_until(lambda: len(store.execute(c.ListDags())) == count)
                    yield psutil.Process(popen.pid), store
            finally:
                popen.terminate()


def wait_until(true: object) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not true():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise RunFailed("the scheduler did not get there in time")
        time.sleep(_INTERVAL)


def used(scheduler: psutil.Process) -> dict[str, float]:
    """Seconds of processor time so far, by kind of process."""
    (supervisor,) = scheduler.children()
    (launcher,) = supervisor.children()
    times = [one.cpu_times() for one in (scheduler, supervisor, launcher)]
    names = (SCHEDULER, SUPERVISOR, LAUNCHER)
    own = {name: one.user + one.system for name, one in zip(names, times, strict=True)}
    return own | {TASKS: times[-1].children_user + times[-1].children_system}


def busy(directory: Path, dags: int, instances: int) -> Busy:
    """One run of each DAG, all at once."""
    site = Site(directory / "busy")
    names = [f"empty_{number}" for number in range(dags)]
    for name in names:
        site.write(name, _EMPTY.format(dag_id=name, instances=instances))
    with site.scheduler(dags) as (scheduler, store):
        before = used(scheduler)
        for name in names:
            store.execute(c.CreateRun(dag_id=name, run_id="r"))
        most_tasks, most_memory = 0, 0.0
        deadline = time.monotonic() + _PATIENCE
        while unfinished := store.execute(c.UnfinishedRuns()):
            if time.monotonic() > deadline:
                raise RunFailed(f"{len(unfinished)} runs have not ended")
            tasks, memory = _load(scheduler)
            most_tasks, most_memory = max(most_tasks, tasks), max(most_memory, memory)
            time.sleep(_INTERVAL)
        after = used(scheduler)
        runs = store.execute(c.ListRuns(states=(RunState.SUCCESS,)))
        if len(runs) != dags:
            raise RunFailed(f"{len(runs)} of {dags} runs have succeeded")
        seconds = max(r.ended_at for r in runs) - min(r.started_at for r in runs)  # type: ignore
    cpu = {name: after[name] - before[name] for name in after}
    return Busy(dags * instances, seconds.total_seconds(), cpu, most_tasks, most_memory)


def _load(scheduler: psutil.Process) -> tuple[int, float]:
    """The number of task processes, and the memory in MB of all processes."""
    tasks, memory = 0, 0.0
    for process in [scheduler, *scheduler.children(recursive=True)]:
        try:
            tasks += process.ppid() != scheduler.pid and process.ppid() != os.getpid()
            memory += process.memory_full_info().pss / 2**20
        except psutil.Error:
            continue  # it has just ended
    return tasks - 1, memory  # without the launcher


def idle(directory: Path, files: int, seconds: float) -> dict[str, float]:
    """Shares of a core, by kind of process, with nothing to do."""
    site = Site(directory / "idle")
    for number in range(files):
        schedule = _SCHEDULES[number % len(_SCHEDULES)]
        site.write(f"dag_{number}", _IDLE.format(dag_id=f"dag_{number}", schedule=schedule))
    with site.scheduler(files) as (scheduler, store):
        wait_until(lambda: not store.execute(c.UnfinishedRuns()))
        time.sleep(2)
        before, start = used(scheduler), time.monotonic()
        time.sleep(seconds)
        after, took = used(scheduler), time.monotonic() - start
    return {name: (after[name] - before[name]) / took for name in after}


def delays(directory: Path, runs: int) -> list[float]:
    """Seconds from the time at which a run is due to the start of its task, run by run."""
    site = Site(directory / "delays")
    site.write("often", _OFTEN)
    with site.scheduler(1) as (_, store):
        done = c.ListRuns(dag_id="often", states=(RunState.SUCCESS,), oldest_first=True)
        wait_until(lambda: len(store.execute(done)) > runs)
        found = store.execute(done)[1:]  # the first was due before the start
        tasks = [store.execute(c.ListTaskInstances(dag_id="often", run_id=r.run_id)) for r in found]
    starts = [task.started_at for (task,) in tasks]
    return [
        (start - run.logical_date).total_seconds()
        for run, start in zip(found, starts, strict=True)
        if start is not None and run.logical_date is not None
    ]
