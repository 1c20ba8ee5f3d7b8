"""Whether a scheduler that runs for long with retention stays as large as it is after a while."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.runner.project import RunFailed
from bench.runner.scheduling import Site, wait_until
from holdfast import commands as c
from holdfast.connection import Connection
from holdfast.model.run import RunState
from holdfast.stores.sql import SqlStore

PARTS = 10
_AT_ONCE = 24
_PATIENCE = 3600.0
_PAUSE = 0.05
_SETTINGS = """\
[state_store]
cleanup_interval = "{interval}s"

[retention]
runs = "{age}s"
external_runs = "{age}s"
asset_events = "{age}s"
logs = "{age}s"
"""
_LOAD = """\
from datetime import timedelta
from holdfast.sdk import DAG, Asset, task

with DAG("load", max_active_runs=24):

    @task(outlets=[Asset("orders")])
    def load(task_store):
        task_store.set("cursor", "x" * 1000, retention=timedelta(seconds=1))
        print("y" * 1000)
        return list(range(100))

    load()
"""
_REPORT = """\
from holdfast.sdk import DAG, Asset, task

with DAG("report", schedule=[Asset("orders")], max_active_runs=1):

    @task
    def report():
        print("z" * 1000)

    report()
"""


class Sizes(NamedTuple):
    runs: int
    """Runs that have ended so far, without those that events started."""
    stored_runs: int
    database: float
    """MB, with the WAL."""
    log_files: int
    log_directories: int
    memory: float
    """MB of the scheduler, the supervisor and the launcher."""


def measure(directory: Path, runs: int, age: int, interval: int) -> list[Sizes]:
    """Execute so many runs, each deleted after `age` seconds; return the sizes after each tenth."""
    site = Site(directory / "retention")
    site.write("load", _LOAD)
    site.write("report", _REPORT)
    settings = _SETTINGS.format(age=age, interval=interval)
    (site.directory / "holdfast.toml").write_text(settings)
    sizes: list[Sizes] = []
    tenths = 0
    with site.scheduler(2) as (scheduler, store):
        wait_until(lambda: len(scheduler.children(recursive=True)) >= 2)
        for ended in _execute(store, runs):
            if PARTS * ended // runs > tenths:
                tenths = PARTS * ended // runs
                sizes.append(_sizes(site, scheduler, store, ended))
        failed = store.execute(c.ListRuns(states=(RunState.FAILED,)))
    if failed:
        raise RunFailed(f"{len(failed)} runs have failed")
    return sizes


def _execute(store: SqlStore, runs: int) -> Iterator[int]:
    """Create runs, as many as fit; yield now and then how many have ended."""
    connection = Connection(store)
    created = ended = 0
    deadline = time.monotonic() + _PATIENCE
    while ended < runs:
        unfinished = {one.dag_id: one for one in store.execute(c.UnfinishedRuns())}
        one = unfinished.get("load")
        waiting = one.queued + one.running if one else 0
        ended = created - waiting
        yield ended
        for number in range(created, min(runs, created + _AT_ONCE - waiting)):
            store.execute(c.CreateRun(dag_id="load", run_id=f"run {number}"))
            if number % 10 == 0:  # a script
                with connection.task_store("script", f"run {number}", "t").attempt():
                    pass
            created += 1
        if time.monotonic() > deadline:
            raise RunFailed(f"{ended} of {runs} runs have ended")
        time.sleep(_PAUSE)


def _sizes(site: Site, scheduler: psutil.Process, store: SqlStore, ended: int) -> Sizes:
    home = site.directory / ".holdfast"
    files = directories = 0
    for _, subdirectories, names in os.walk(home / "logs"):
        files += len(names)
        directories += len(subdirectories)
    return Sizes(
        runs=ended,
        stored_runs=store.execute(c.Count(c.ListRuns())),
        database=sum(path.stat().st_size for path in home.glob("holdfast.db*")) / 2**20,
        log_files=files,
        log_directories=directories,
        memory=_memory(scheduler),
    )


def _memory(scheduler: psutil.Process) -> float:
    """Return the MB of the processes that stay."""
    (supervisor,) = scheduler.children()
    (launcher,) = supervisor.children()
    staying = (scheduler, supervisor, launcher)
    return float(sum(one.memory_full_info().uss for one in staying)) / 2**20
