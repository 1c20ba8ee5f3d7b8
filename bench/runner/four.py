"""A DAG of four small tasks: `holdfast run` beside `airflow dags test`."""

from __future__ import annotations

import time
from pathlib import Path

from bench import airflow
from bench.rounds import in_turns
from bench.runner.project import DAGS, Project, RunFailed

HOLDFAST = "holdfast run"
AIRFLOW = f"Airflow {airflow.VERSION}: airflow dags test"

_DAG_ID = "four_tasks"
_TOTAL = "12"


def measure(directory: Path, rounds: int, with_airflow: bool) -> dict[str, list[float]]:
    """Seconds of each contender, round by round, after one that makes what it needs."""
    project = Project(directory / "four")
    contenders = {HOLDFAST: lambda: project.run(_DAG_ID)}
    if with_airflow:
        environ = airflow_home(directory / "airflow")
        contenders[AIRFLOW] = lambda: run_airflow(project.directory, environ)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    total = project.directory / "total.txt"
    for number in range(1 + rounds):
        for name in in_turns(list(contenders), number):
            total.unlink(missing_ok=True)
            seconds[name].append(contenders[name]())
            if total.read_text() != _TOTAL:
                raise RunFailed(f"{name}: the total is {total.read_text()}, not {_TOTAL}")
    return {name: times[1:] for name, times in seconds.items()}


def airflow_home(directory: Path) -> dict[str, str]:
    """With the same file in it, but for the import."""
    dags = directory / "dags"
    dags.mkdir(parents=True)
    text = (DAGS / f"{_DAG_ID}.py").read_text()
    (dags / f"{_DAG_ID}.py").write_text(text.replace("holdfast.sdk", "airflow.sdk"))
    return airflow.make_home(directory, f"sqlite:///{directory}/airflow.db")


def run_airflow(directory: Path, environ: dict[str, str]) -> float:
    start = time.perf_counter()
    airflow.call(airflow.PROGRAM, "dags", "test", _DAG_ID, cwd=directory, env=environ)
    return time.perf_counter() - start
