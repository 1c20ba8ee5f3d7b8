"""Reconciling objects with references on Spark, beside one process that does the same.

Both list the same files, and read the same references from the same database. The one process
keeps all references in memory; Spark's driver keeps none of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.offload import reconcile_side
from bench.report import Table
from bench.size import SIZE
from bench.spark.run import Run
from holdfast import commands as c
from holdfast.commands import ReserveObjects
from holdfast.model.entry import TaskWriter
from holdfast.model.scope import TaskScope
from holdfast.model.value import as_reference
from holdfast.stores.sql import SqlStore

DAGS, RUNS = 10, 50
"""Objects are shared by so many dags, with so many runs each."""
ORPHANS = 100
"""One in so many objects is an orphan."""
CONTENT = b'"what a task has stored"'
ALONE, SPARK = "one process", "Spark"


class Measured(NamedTuple):
    start: float
    """Seconds until Spark has started."""
    seconds: float
    """Seconds of the work after that."""
    megabytes: float
    """Peak memory of the Python process."""
    orphans: int


def measure(run: Run) -> None:
    """At a tenth of the objects, and at all of them."""
    most = SIZE.of(1_000, 100_000, 1_000_000)
    found: dict[tuple[str, int], Measured] = {}
    for count in (most // 10, most):
        place = run.directory / str(count)
        plant(place, count)
        for who in (ALONE, SPARK):
            found[who, count] = one = measured(place, who)
            assert one.orphans == len(range(0, count, ORPHANS))
    run.report.tables.append(
        Table(
            f"Reconciling files with references, one in {ORPHANS} of them an orphan",
            ("contender", "objects", "seconds", "seconds before, for Spark", "peak MB of Python"),
            [
                (
                    who,
                    f"{count:,}",
                    f"{one.seconds:.1f}",
                    f"{one.start:.1f}",
                    f"{one.megabytes:.0f}",
                )
                for (who, count), one in found.items()
            ],
        )
    )
    few, many = found[SPARK, most // 10], found[SPARK, most]
    run.report.at_least(
        1.0,
        f"reconciling {most:,} objects, as fast as one process",
        found[ALONE, most].seconds / many.seconds,
        "at this size and with these few cores, to plan queries and start workers takes longer "
        "than is gained by listing side by side",
    )
    run.report.at_most(
        1.2,
        "memory of the driver, for ten times the objects",
        many.megabytes / few.megabytes,
        "the driver keeps something of each object",
    )
    run.report.at_most(
        12.0,
        "time to reconcile ten times the objects",
        many.seconds / few.seconds,
        "the system's cache does not hold so many files",
    )


def plant(place: Path, count: int) -> None:
    """Files of task instances, and entries that refer to most of them."""
    place.mkdir()
    backend = reconcile_side.storage(place)
    with SqlStore(reconcile_side.database(place)) as store:
        for lot in range(DAGS * RUNS):
            scope = TaskScope(f"dag {lot % DAGS}", f"run {lot // DAGS}", "load")
            values = []
            for number in range(lot, count, DAGS * RUNS):
                reference = backend.reference_for(scope, f"file {number}", CONTENT)
                assert reference is not None
                file = Path(reference.removeprefix("file://"))
                file.parent.mkdir(parents=True)
                file.write_bytes(CONTENT)
                if number % ORPHANS:
                    values.append((f"file {number}", as_reference(reference)))
            store.execute(c.RegisterTask(scope))
            if values:
                objects = tuple((key, text, "bench") for key, text in values)
                store.execute(ReserveObjects(scope, objects, TaskWriter(scope)))
                write = c.SetMany(scope, tuple(values), TaskWriter(scope), reservation="bench")
                store.execute(write)


def measured(place: Path, who: str) -> Measured:
    """In a process of its own, for the sake of its peak memory."""
    side = "alone" if who == ALONE else "spark"
    command = [sys.executable, "-m", reconcile_side.__name__, side, str(place)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Measured)
