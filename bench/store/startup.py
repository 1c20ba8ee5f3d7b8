"""How long commands take to start and say something, from an empty embedded store."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from bench.rounds import ROUNDS

PROGRAM = Path(sys.executable).with_name("holdfast")
VERSION = ("--version",)
DRY_RUN = ("state-store", "cleanup-task-store", "--dry-run")
AIRFLOW_DRY_RUN = ("state-store", "clean", "--dry-run")


def seconds(
    program: Path,
    arguments: tuple[str, ...],
    directory: Path,
    environ: Mapping[str, str] | None = None,
) -> float:
    """The median of the rounds, after one that makes what the command needs."""
    directory.mkdir(exist_ok=True)
    times = []
    for _ in range(1 + ROUNDS):
        start = time.perf_counter()
        subprocess.run(
            [program, *arguments], cwd=directory, env=environ, check=True, capture_output=True
        )
        times.append(time.perf_counter() - start)
    return median(times[1:])
