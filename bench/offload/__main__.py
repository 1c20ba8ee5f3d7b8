"""Measure values that are kept as objects; print it, and write RESULTS.md."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from bench import machine
from bench.offload import memory, reconcile, values
from bench.report import Report
from bench.spark.run import Run

SECTIONS = (values, memory, reconcile)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.offload", description=__doc__)
    parser.add_argument("--full", action="store_true", help="at the large sizes")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="only these")
    given = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    talk = Console(stderr=True)
    report = Report([("size", "full" if given.full else "normal"), *machine.facts()])
    sections = [one for one in SECTIONS if not given.sections or _name(one) in given.sections]
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        for number, section in enumerate(sections, start=1):
            talk.print(f"{number} of {len(sections)}: {_name(section)}")
            place = Path(directory, _name(section))
            place.mkdir()
            section.measure(Run(given.full, place, report))
    report.print(Console())
    if not given.sections:
        report.write(Path(__file__).parent)


def _name(section: object) -> str:
    return str(getattr(section, "__name__", "")).rpartition(".")[2]


if __name__ == "__main__":
    main()
