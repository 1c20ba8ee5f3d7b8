"""How much of the flights demo's time goes into calls of the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from bench.runner.project import Project


class Spent(NamedTuple):
    """Seconds. Tasks that run side by side each count."""

    wall: float
    in_store: float
    calls: int


def measure(directory: Path) -> Spent:
    """One undisturbed run over a year of flights."""
    project = Project(directory / "demo")
    places = {name: str(project.directory / name) for name in ("landing", "warehouse")}
    project.run("land_flights", **places)
    wall = project.run("flights", **places)
    notes = (project.directory / "store-calls.jsonl").read_text().splitlines()
    attempts = [json.loads(note) for note in notes]
    return Spent(
        wall,
        sum(attempt["seconds"] for attempt in attempts),
        sum(attempt["calls"] for attempt in attempts),
    )
