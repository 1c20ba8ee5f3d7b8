"""Measure the server beside Airflow's; print it, and write RESULTS.md."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from bench import airflow, machine
from bench.report import Report
from bench.server.sections import SECTIONS, Run
from bench.server.servers import ServerFailed, airflow_server, holdfast_server
from bench.size import SIZE
from bench.store.databases import facts, private_databases


def main() -> None:
    talk = Console(stderr=True)
    with private_databases() as databases, ExitStack() as stack:
        report = Report([("size", SIZE.value), *machine.facts(), *facts(databases.server)])
        talk.print("Airflow: installing, making its tables, starting its server")
        try:
            airflow.install()
            airflow_task = stack.enter_context(airflow_server(databases))
        except (airflow.AirflowFailed, ServerFailed) as error:
            airflow_task = None
            report.notes.append(f"Airflow {airflow.VERSION} did not take part: {error}")
        server = stack.enter_context(holdfast_server(databases))
        run = Run(databases.directory, server, airflow_task, report)
        for number, section in enumerate(SECTIONS, start=1):
            name = section.__name__.replace("_", " ")
            talk.print(f"{number} of {len(SECTIONS)}: {name}")
            try:
                section(run)
            except ServerFailed as error:
                report.notes.append(f"{name} could not be measured: {error}")
    report.print(Console())
    report.write(Path(__file__).parent)


if __name__ == "__main__":
    main()
