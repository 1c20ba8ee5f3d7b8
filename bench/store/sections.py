"""The parts of a run: each measures one thing and adds its tables and claims to the report."""

from __future__ import annotations

from dataclasses import dataclass

from bench import airflow as airflow_
from bench.report import Report, Table, crossed
from bench.size import SIZE, Size
from bench.store import among, batch, cleanup, single, startup
from bench.store.databases import KINDS, Databases
from bench.store.metastore import Airflow

EXPIRED = SIZE.of(500, 100_000, 1_000_000)
"""Rows that a cleanup deletes, out of twice as many."""

_REQUIRED = {
    ("postgresql", "set"): 0.75,
    ("postgresql", "get"): 0.7,
    ("sqlite", "set"): 0.7,
    ("sqlite", "get"): 0.2,
}
_MEGABYTE = 1_000_000

_BETWEEN = "the rest is Python between the call and the driver: encoding, checks, a connection"
_BY_ONE = "psycopg sends the batch's rows in one go, but the server still takes them one by one"
_DEPTH = "a larger index is deeper, and its pages are not all in the database's own cache"
_WHOLE = "this is the same statement; what differs is the noise of the disk"
_LOCKS = (
    "a batch locks its rows before it deletes them, to pass over those that a writer holds, "
    "so each row is written twice"
)
_DISK = "the writer's commit waits for the same disk that the cleanup writes to"
_MEMORY = "rows should never leave the database; something has kept them"
_IMPORTS = "nearly all of it is importing SQLAlchemy; the machine was slow at that"


@dataclass(frozen=True)
class Run:
    """What all parts share."""

    databases: Databases
    airflow: dict[str, Airflow]
    """By kind of database; empty where it could not be installed."""
    report: Report


def set_and_get(run: Run) -> None:
    cells = {}
    for kind, name in KINDS.items():
        for what, rates in single.measure(run.databases, kind, run.airflow.get(kind)).items():
            driver = rates[single.DRIVER]
            cells[f"{name} {what}"] = {
                contender: f"{rate:,.0f} ({rate / driver:.2f})" for contender, rate in rates.items()
            }
            ratio = rates[single.TASK_STORE] / driver
            run.report.at_least(
                _REQUIRED[kind, what], f"{name}: {what} / driver alone", ratio, _BETWEEN
            )
    title = "One set or get at a time, by the second (of the driver alone)"
    run.report.tables.append(crossed(title, "", cells))


def set_many(run: Run) -> None:
    cells = {}
    for kind, name in KINDS.items():
        rates = batch.measure(run.databases, kind)
        cells[name] = {contender: f"{rate:,.0f}" for contender, rate in rates.items()}
        ratio = rates[batch.SET_MANY] / rates[batch.SINGLE]
        run.report.at_least(10, f"{name}: set_many of {batch.SIZE:,} / single sets", ratio, _BY_ONE)
    run.report.tables.append(crossed("Entries written in a second", "", cells))


def get_among_many(run: Run) -> None:
    few, many = among.FEW, among.MANY
    cells = {}
    for kind, name in KINDS.items():
        rates = among.measure(run.databases, kind)
        cells[name] = {f"among {rows:,} rows": f"{rate:,.0f}" for rows, rate in rates.items()}
        what = f"{name}: time of a get among {many:,} rows / among {few:,}"
        run.report.at_most(1.5, what, rates[few] / rates[many], _DEPTH)
    run.report.tables.append(crossed("Random gets in a second", "", cells))


def expiry(run: Run) -> None:
    rows = cleanup.ExpiredRows(run.databases, EXPIRED)
    rates = rows.rates(run.airflow.get("postgresql"))
    bare = rates[cleanup.BARE]
    cells = {
        "rows a second": {contender: f"{rate:,.0f}" for contender, rate in rates.items()},
        "of the bare DELETE": {
            contender: f"{rate / bare:.2f}" for contender, rate in rates.items()
        },
    }
    title = f"Cleanup of {EXPIRED:,} expired among {2 * EXPIRED:,} rows, PostgreSQL"
    run.report.tables.append(crossed(title, "", cells))
    for contender, why_short in ((cleanup.WHOLE, _WHOLE), (cleanup.BATCHED, _LOCKS)):
        run.report.at_least(0.8, f"{contender} / bare DELETE", rates[contender] / bare, why_short)

    delays = rows.delays()
    by_load = {
        "the database is idle": f"{delays.idle * 1000:.2f}",
        "a batched cleanup runs": f"{delays.cleaning * 1000:.2f}",
    }
    title = "A set in another process, PostgreSQL"
    run.report.tables.append(crossed(title, "while", {"p99 in ms": by_load}))
    what = "p99 of a set during batched cleanup / idle"
    run.report.at_most(5, what, delays.cleaning / delays.idle, _DISK)

    memory(run, EXPIRED, rows)
    memory(run, 10 * EXPIRED, cleanup.ExpiredRows(run.databases, 10 * EXPIRED))


def memory(run: Run, expired: int, rows: cleanup.ExpiredRows) -> None:
    what = f"memory growth in a cleanup of {expired:,} rows"
    run.report.at_most(16, what, rows.growth() / _MEGABYTE, _MEMORY, unit=" MB")


def start_up(run: Run) -> None:
    directory = run.databases.directory / "embedded"
    rows = []
    for arguments, required in ((startup.VERSION, 0.2), (startup.DRY_RUN, 0.6)):
        command = f"holdfast {' '.join(arguments)}"
        seconds = startup.seconds(startup.PROGRAM, arguments, directory)
        rows.append((command, f"{seconds:.2f}"))
        run.report.at_most(required, command, seconds, _IMPORTS, unit=" s")
    if SIZE is Size.FULL and "sqlite" in run.airflow:
        environ = run.airflow["sqlite"].environ
        seconds = startup.seconds(airflow_.PROGRAM, startup.AIRFLOW_DRY_RUN, directory, environ)
        rows.append((f"airflow {' '.join(startup.AIRFLOW_DRY_RUN)}", f"{seconds:.2f}"))
    run.report.tables.append(Table("Start-up on an empty store", ("command", "seconds"), rows))


SECTIONS = (set_and_get, set_many, get_among_many, expiry, start_up)
