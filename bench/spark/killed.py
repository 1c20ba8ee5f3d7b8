"""What a run that was killed half-way still has to do."""

from __future__ import annotations

from bench.report import Table
from bench.runner.project import Project
from bench.size import SIZE
from bench.spark.run import Run

CHUNKS = 20

_AGAIN = "more than the chunks of a second were done again, or Spark was slower the second time"


def measure(run: Run) -> None:
    """Executor time of an undisturbed run, and of the second attempt of one killed at 50 %."""
    rows = SIZE.of(4_000, 400_000, 4_000_000)
    seconds = {
        name: _executor_seconds(Project(run.directory / name), rows, name == "killed")
        for name in ("undisturbed", "killed")
    }
    told = ("undisturbed", "second attempt, the first was killed at 50 %")
    cells = [(name, f"{one:.2f}") for name, one in zip(told, seconds.values(), strict=True)]
    title = f"{CHUNKS} chunks, written on Spark"
    run.report.tables.append(Table(title, ("run", "seconds of executors"), cells))
    ratio = seconds["killed"] / seconds["undisturbed"]
    what = "executor time of the second attempt / of an undisturbed run"
    run.report.at_most(0.65, what, ratio, _AGAIN)


def _executor_seconds(project: Project, rows: int, killed: bool) -> float:
    path = str(project.directory / "out")
    project.run("killed_chunks", rows=rows, chunks=CHUNKS, path=path, killed=killed)
    return float(project.result("killed_chunks", "chunks"))
