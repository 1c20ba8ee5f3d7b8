"""The parts of a run: each measures one thing and adds its tables and claims to the report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.report import Report, Table, crossed
from bench.server import load, sequential
from bench.server.servers import HoldfastServer, Task
from bench.size import SIZE

SECONDS = SIZE.of(2, 20, 60)
"""Of many clients at once."""

_REQUIRED = {"set": 7.0, "get": 10.0}
_MEGABYTE = 1_000_000

_ROUND_TRIP = "what remains is two processes that wake each other, HTTP, and the database's commit"
_THEIR_CLIENT = "most of the time is the client's own"
_ERRORS = "the notes say what failed"
_QUEUE = "requests wait for one another where the machine has too few cores for all of them"
_MEMORY = "something is kept for each request"


@dataclass(frozen=True)
class Run:
    """What all parts share."""

    directory: Path
    server: HoldfastServer
    airflow_task: Task | None
    """A task of Airflow's server, where that could be installed."""
    report: Report


def one_client(run: Run) -> None:
    paces = sequential.measure(run.directory, run.server, run.airflow_task)
    for what, by_contender in paces.items():
        cells = {
            "calls a second": {name: f"{pace.rate:,.0f}" for name, pace in by_contender.items()},
            "p50 in ms": {name: f"{1000 * pace.p50:.2f}" for name, pace in by_contender.items()},
            "p99 in ms": {name: f"{1000 * pace.p99:.2f}" for name, pace in by_contender.items()},
        }
        run.report.tables.append(crossed(f"One client, {what} after {what}", "", cells))
        if run.airflow_task is not None:
            theirs = by_contender[sequential.AIRFLOW].rate
            ratio = by_contender[sequential.OURS].rate / theirs
            required = _REQUIRED[what]
            claim = f"{what}: our client and server / Airflow's"
            run.report.at_least(required, claim, ratio, _ROUND_TRIP)
            ratio = by_contender[sequential.MIXED].rate / theirs
            claim = f"{what}: Airflow's client with our server / with its own"
            run.report.at_least(3, claim, ratio, _THEIR_CLIENT)


def many_clients(run: Run) -> None:
    found = load.measure(run.server, SECONDS)
    who = f"{load.CLIENTS} clients for {SECONDS} s"
    rows = [
        (
            what,
            f"{times.calls / SECONDS:,.0f}",
            *(f"{1000 * value:.2f}" for value in (times.mean, times.p99, times.worst)),
        )
        for what, times in found.times.items()
    ]
    columns = ("", "calls a second", "mean in ms", "p99 in ms", "longest in ms")
    run.report.tables.append(Table(who, columns, rows))
    cores = [(name, f"{value:.2f}") for name, value in found.cores.items()]
    run.report.tables.append(Table(f"Processor time, {who}", ("", "cores"), cores))
    run.report.at_most(0, f"{who}: errors", len(found.errors), _ERRORS)
    for what, times in found.times.items():
        run.report.at_most(4, f"{who}: p99 of {what} / mean", times.p99 / times.mean, _QUEUE)
    growth = f"memory of the server, growth from second {load.SETTLED} to {SECONDS}"
    run.report.at_most(10, growth, found.growth / _MEGABYTE, _MEMORY, unit=" MB")
    run.report.notes.append(f"at the end the server had {found.memory / _MEGABYTE:.0f} MB")
    run.report.notes.extend(sorted(set(found.errors))[:10])


SECTIONS = (one_client, many_clients)
