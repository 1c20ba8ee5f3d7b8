"""Measure the store beside the driver alone and Airflow's; print it, and write RESULTS.md."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from bench import airflow, machine
from bench.report import Report
from bench.size import SIZE
from bench.store import metastore
from bench.store.databases import KINDS, facts, private_databases
from bench.store.sections import SECTIONS, Run


def main() -> None:
    talk = Console(stderr=True)
    with private_databases() as databases, ExitStack() as stack:
        report = Report([("size", SIZE.value), *machine.facts(), *facts(databases.server)])
        run = Run(databases, {}, report)
        talk.print("Airflow: installing, making its tables")
        try:
            airflow.install()
            for kind in KINDS:
                run.airflow[kind] = stack.enter_context(metastore.start(databases, kind))
        except airflow.AirflowFailed as error:
            report.notes.append(f"Airflow {airflow.VERSION} did not take part: {error}")
        for number, section in enumerate(SECTIONS, start=1):
            talk.print(f"{number} of {len(SECTIONS)}: {section.__name__.replace('_', ' ')}")
            section(run)
    report.print(Console())
    report.write(Path(__file__).parent)


if __name__ == "__main__":
    main()
