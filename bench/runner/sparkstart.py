"""How soon a task of a run has its first Spark job running."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bench.runner.project import Project

TASKS = ("first", "second")


class FirstJob(NamedTuple):
    """Seconds from the start of the task's process; the job was submitted in between."""

    before: float
    after: float


def measure(directory: Path, rounds: int) -> dict[str, list[FirstJob]]:
    """Of both tasks of a run, run by run."""
    project = Project(directory / "spark")
    jobs: dict[str, list[FirstJob]] = {task: [] for task in TASKS}
    for _ in range(rounds):
        project.run("spark_tasks")
        for task in TASKS:
            jobs[task].append(FirstJob(**project.result("spark_tasks", task)))
    return jobs
