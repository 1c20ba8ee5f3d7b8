"""Spark work of the flights tests, in a separate process: pytest's may fork."""

from __future__ import annotations

import sys
from pathlib import Path

from scripts import EXAMPLES

sys.path.insert(0, str(EXAMPLES / "flights"))

from fingerprint import Fingerprint, fingerprint
from landing import land, unpack

from server import spark_session


def land_days(remote: str, directory: Path, condition: str) -> int:
    """Land the flights of some days below the directory, and return their number."""
    with spark_session(remote) as spark:
        return land(spark, some_flights(directory), directory / "landing", condition)


def some_flights(directory: Path) -> Path:
    """Return a file with those from the last day of January to the end of February: a year takes
    longer."""
    some = directory / "some.csv"
    kept = ("year", "2013,1,31,", "2013,2,")
    with unpack(directory).open() as every, some.open("w") as file:
        file.writelines(line for line in every if line.startswith(kept))
    return some


def fingerprints(remote: str, warehouse: Path) -> dict[str, Fingerprint]:
    """Return the fingerprint of each table."""
    with spark_session(remote) as spark:
        return {name: fingerprint(spark, warehouse / name) for name in ("raw", "clean", "delays")}
