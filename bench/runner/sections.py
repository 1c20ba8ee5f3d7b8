"""The parts of a run: each measures one thing and adds its tables and claims to the report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.report import Report, Table, crossed
from bench.runner import demo, empty, four, pipe, scheduling, sparkstart
from bench.size import SIZE

ROUNDS = SIZE.of(1, 3, 5)
"""Runs of one thing, of which the median counts."""
INSTANCES = SIZE.of(20, 300, 1000)
"""Of a mapped task that does nothing."""
DAGS = SIZE.of(2, 20, 20)
DAG_INSTANCES = SIZE.of(5, 50, 100)
FILES = SIZE.of(8, 500, 500)
IDLE_SECONDS = SIZE.of(2.0, 20.0, 60.0)
DUE_RUNS = SIZE.of(1, 5, 10)

_IMPORTS = "most of it is Python loading the database library, in two processes at a time"
_CROSSING = "two processes wake each other for each call"
_SESSION = "opening the session, or planning the job, took longer; the machine was slow at that"
_STARTS = "each is a process of its own, which the machine was slow to start"
_IDLE = "it looks at each file once a second"
_LATE = "the machine was busy when the run was due"
_CALLS = "the tasks did little else, or the disk was slow at making writes durable"


@dataclass(frozen=True)
class Run:
    """What all parts share."""

    directory: Path
    with_airflow: bool
    report: Report


def four_tasks(run: Run) -> None:
    seconds = four.measure(run.directory, ROUNDS, run.with_airflow)
    medians = {name: median(times) for name, times in seconds.items()}
    cells = {
        "seconds": {name: f"{value:.2f}" for name, value in medians.items()},
        "of all rounds": {
            name: ", ".join(f"{value:.2f}" for value in times) for name, times in seconds.items()
        },
    }
    title = "Four tasks, one of them mapped over three"
    run.report.tables.append(crossed(title, "", cells))
    if run.with_airflow:
        ratio = medians[four.AIRFLOW] / medians[four.HOLDFAST]
        run.report.at_least(8, "time of airflow dags test / of holdfast run", ratio, _IMPORTS)


def store_from_a_task(run: Run) -> None:
    rates = pipe.measure(run.directory)
    cells = {
        what: {
            contender: f"{rate:,.0f} ({rate / by_contender[pipe.DIRECT]:.2f})"
            for contender, rate in by_contender.items()
        }
        for what, by_contender in rates.items()
    }
    title = "One set or get at a time, by the second (of the store in one process), SQLite"
    run.report.tables.append(crossed(title, "task_store", cells))
    ratio = rates["set"][pipe.PIPE] / rates["set"][pipe.DIRECT]
    run.report.at_least(0.5, "SQLite: set in a task / in one process", ratio, _CROSSING)


def first_spark_job(run: Run) -> None:
    jobs = sparkstart.measure(run.directory, ROUNDS)
    cells = {
        "before the job": {task: _median_and_all(task, jobs, 0) for task in sparkstart.TASKS},
        "after it": {task: _median_and_all(task, jobs, 1) for task in sparkstart.TASKS},
    }
    title = "Seconds from the start of a task's process to its first Spark job (all runs)"
    run.report.tables.append(crossed(title, "task of the run", cells))
    after = median(job.after for job in jobs["second"])
    what = "start of the second Spark task to the end of its first job"
    run.report.at_most(3, what, after, _SESSION, unit=" s")


def _median_and_all(task: str, jobs: dict[str, list[sparkstart.FirstJob]], moment: int) -> str:
    times = [job[moment] for job in jobs[task]]
    return f"{median(times):.2f} ({', '.join(f'{time:.2f}' for time in times)})"


def store_in_the_demo(run: Run) -> None:
    spent = demo.measure(run.directory)
    share = 100 * spent.in_store / spent.wall
    rows = [
        ("the run", f"{spent.wall:.2f}", ""),
        ("in store calls of all its tasks", f"{spent.in_store:.2f}", f"{spent.calls:,}"),
    ]
    run.report.tables.append(Table("The flights demo", ("", "seconds", "calls"), rows))
    run.report.at_most(2, "flights demo: time in store calls", share, _CALLS, unit=" %")


def empty_tasks(run: Run) -> None:
    cost = empty.measure(run.directory, INSTANCES)
    total = sum(cost.cpu.values())
    cells = {
        "ms of processor time for an instance": {
            name: f"{1000 * used / INSTANCES:.1f}" for name, used in cost.cpu.items()
        },
        "share": {name: f"{used / total:.2f}" for name, used in cost.cpu.items()},
    }
    title = f"{INSTANCES:,} instances of an empty task: {1000 * cost.seconds:.1f} ms for each"
    run.report.tables.append(crossed(title, "process", cells))


def busy_scheduler(run: Run) -> None:
    busy = scheduling.busy(run.directory, DAGS, DAG_INSTANCES)
    each = 1000 * busy.seconds / busy.instances
    cells = {
        "ms of processor time for an instance": {
            name: f"{1000 * used / busy.instances:.1f}" for name, used in busy.cpu.items()
        }
    }
    title = f"{busy.instances:,} instances of an empty task in {DAGS} DAGs: {each:.1f} ms for each"
    run.report.tables.append(crossed(title, "process", cells))
    memory = [("task processes at once", str(busy.most_tasks)), ("MB", f"{busy.most_memory:,.0f}")]
    run.report.tables.append(Table("At most, meanwhile", ("", ""), memory))
    run.report.at_most(12, "scheduler: an empty task", each, _STARTS, unit=" ms")


def idle_scheduler(run: Run) -> None:
    shares = scheduling.idle(run.directory, FILES, IDLE_SECONDS)
    cells = {"share of a core": {name: f"{100 * used:.1f} %" for name, used in shares.items()}}
    title = f"A scheduler with {FILES} DAG files and nothing to do"
    run.report.tables.append(crossed(title, "process", cells))
    total = 100 * sum(shares.values())
    run.report.at_most(3, "idle scheduler: share of a core", total, _IDLE, unit=" %")


def due_runs(run: Run) -> None:
    delays = scheduling.delays(run.directory, DUE_RUNS)
    rows = [("median", f"{median(delays):.2f}"), ("longest", f"{max(delays):.2f}")]
    title = f"Seconds from when a run is due to the start of its task, {len(delays)} runs"
    run.report.tables.append(Table(title, ("", "seconds"), rows))
    run.report.at_most(1, "a due run starts after", max(delays), _LATE, unit=" s")


SECTIONS = (
    *(four_tasks, store_from_a_task, first_spark_job, store_in_the_demo, empty_tasks),
    *(busy_scheduler, idle_scheduler, due_runs),
)
