"""A benchmark in sections, of which some may be run alone."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from rich.console import Console

from bench import machine
from bench.report import Report
from bench.size import SIZE
from bench.spark.run import Run


def measure(package: str, about: str | None, sections: Sequence[ModuleType]) -> None:
    """Measure what the command line names, and print it; a whole run also writes RESULTS.md."""
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=about)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="only these")
    given = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    talk = Console(stderr=True)
    report = Report([("size", SIZE.value), *machine.facts()])
    named = {section.__name__.rpartition(".")[2]: section for section in sections}
    chosen = {name: one for name, one in named.items() if name in (given.sections or named)}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        for number, (name, section) in enumerate(chosen.items(), start=1):
            talk.print(f"{number} of {len(chosen)}: {name}")
            place = Path(directory, name)
            place.mkdir()
            section.measure(Run(place, report))
    report.print(Console())
    if not given.sections:
        report.write(Path(__file__).parents[1] / Path(*package.split(".")))
