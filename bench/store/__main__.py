"""Measure the store beside the driver alone and Airflow's; print it, and write RESULTS.md."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from bench import airflow, machine
from bench.report import Report
from bench.store import metastore
from bench.store.databases import KINDS, facts, private_databases
from bench.store.sections import FULL, NORMAL, SECTIONS, Run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.store", description=__doc__)
    parser.add_argument("--full", action="store_true", help="at the sizes that the claims name")
    sizes = FULL if parser.parse_args().full else NORMAL
    talk = Console(stderr=True)
    with private_databases() as databases, ExitStack() as stack:
        report = Report([("size", sizes.name), *machine.facts(), *facts(databases.server)])
        run = Run(sizes, databases, {}, report)
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
