"""What an instance of a task costs that does nothing, and which process bears it."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.runner.project import Project

SCHEDULER = "scheduler (holdfast run)"
SUPERVISOR = "supervisor"
LAUNCHER = "launcher"
TASKS = "tasks"

_INTERVAL = 0.2


class Cost(NamedTuple):
    seconds: float
    """For an instance, without what a run with a single one takes."""
    cpu: dict[str, float]
    """Seconds of processor time in all, by kind of process."""


def measure(directory: Path, instances: int) -> Cost:
    project = Project(directory / "empty")
    project.run("empty_tasks", instances=1)
    alone = project.run("empty_tasks", instances=1)
    start = time.perf_counter()
    with project.started("empty_tasks", instances=instances) as process:
        cpu = watch(process)
    seconds = time.perf_counter() - start
    return Cost((seconds - alone) / (instances - 1), cpu)


def watch(process: subprocess.Popen[bytes]) -> dict[str, float]:
    """What its processes have used, as of the last look before its end."""
    scheduler = psutil.Process(process.pid)
    used: dict[str, float] = {}
    while process.poll() is None:
        time.sleep(_INTERVAL)
        try:
            (supervisor,) = scheduler.children()
            (launcher,) = supervisor.children()
            times = [one.cpu_times() for one in (scheduler, supervisor, launcher)]
        except (psutil.NoSuchProcess, ValueError):
            continue  # they start, or end
        for name, time_ in zip((SCHEDULER, SUPERVISOR, LAUNCHER), times, strict=True):
            used[name] = time_.user + time_.system
        used[TASKS] = times[-1].children_user + times[-1].children_system
    return used
