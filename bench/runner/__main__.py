"""Measure runs, beside Airflow where it can do the same; print it, and write RESULTS.md."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console

from bench import airflow, machine
from bench.report import Report
from bench.runner.project import RunFailed
from bench.runner.sections import SECTIONS, Run
from bench.size import SIZE


def main() -> None:
    talk = Console(stderr=True)
    report = Report([("size", SIZE.value), *machine.facts()])
    talk.print("Airflow: installing")
    try:
        airflow.install()
        with_airflow = True
    except airflow.AirflowFailed as error:
        with_airflow = False
        report.notes.append(f"Airflow {airflow.VERSION} did not take part: {error}")
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        run = Run(Path(directory), with_airflow, report)
        for number, section in enumerate(SECTIONS, start=1):
            name = section.__name__.replace("_", " ")
            talk.print(f"{number} of {len(SECTIONS)}: {name}")
            try:
                section(run)
            except (airflow.AirflowFailed, RunFailed) as error:
                report.notes.append(f"{name} could not be measured: {error}")
    report.print(Console())
    report.write(Path(__file__).parent)


if __name__ == "__main__":
    main()
