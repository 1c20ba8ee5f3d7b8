"""What it costs to record each item of a loop."""

from __future__ import annotations

from statistics import median

from bench.report import Table
from bench.runner.project import Project
from bench.size import SIZE
from bench.spark.run import Run

SECONDS = 0.01
"""That an item takes."""

_WAITS = "the disk was slow at making writes durable, or the machine was busy elsewhere"


def measure(run: Run) -> None:
    """The same loop with and without, in one task, in turns."""
    items, rounds = SIZE.of((100, 1), (1_000, 3), (10_000, 1))
    project = Project(run.directory / "checkpoint")
    project.run("checkpoint_loop", items=items, seconds=SECONDS, rounds=rounds)
    seconds: dict[str, list[float]] = project.result("checkpoint_loop", "loops")
    medians = {name: median(times) for name, times in seconds.items()}
    rows = [
        (name, f"{medians[name]:.2f}", ", ".join(f"{one:.2f}" for one in times))
        for name, times in seconds.items()
    ]
    title = f"{items:,} items of {1000 * SECONDS:g} ms each, in a task"
    run.report.tables.append(Table(title, ("loop", "seconds", "of all rounds"), rows))
    cost = 100 * (medians["checkpointed"] / medians["plain"] - 1)
    run.report.at_most(1, "cost of checkpointing items of 10 ms", cost, _WAITS, unit=" %")
