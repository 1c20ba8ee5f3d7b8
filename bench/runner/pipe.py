"""`set` and `get` from a task, through its supervisor, beside the store in one process."""

from __future__ import annotations

from pathlib import Path

from bench.runner.project import Project

PIPE = "in a task, through pipe and supervisor"
DIRECT = "the store, in one process"

TURNS = {"set": 50, "get": 500}
"""Operations of one before it is the other's turn."""


def measure(directory: Path) -> dict[str, dict[str, float]]:
    """Operations a second, by operation and contender, in one database."""
    project = Project(directory / "pipe")
    project.run("pipe", url=project.url)
    rates: dict[str, dict[str, float]] = project.result("pipe", "measure")
    return rates
