"""One large value: how much memory it takes to set it, and to get it."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

from bench.offload.s3 import BUCKET, s3_server
from bench.report import crossed
from bench.size import SIZE
from bench.spark.run import Run

MEGABYTES = SIZE.of(16, 256, 256)
KINDS = ("one string", "a list of strings")
OPERATIONS = ("set", "get")
LIMIT = 2.2


def measure(run: Run) -> None:
    cells: dict[str, dict[str, str]] = {}
    worst = 0.0
    with s3_server(run.directory):
        places = {"file": f"file://{run.directory}/objects", "S3": f"s3://{BUCKET}"}
        for number, (place, compression, kind) in enumerate(
            product(places, ("none", "zstd"), KINDS)
        ):
            database = f"sqlite:///{run.directory / f'{number}.db'}"
            url = f"{places[place]}/{number}"
            for operation in OPERATIONS:
                growth = _growth(operation, kind, database, url, compression)
                worst = max(worst, growth)
                column = cells.setdefault(f"{operation}, {kind}", {})
                column[f"{place}, compression {compression}"] = f"{growth:.2f}"
    title = f"Peak memory of a value of {MEGABYTES} MB, the user's own copy included, by its size"
    run.report.tables.append(crossed(title, "where", cells))
    run.report.at_most(
        LIMIT,
        f"memory of a value of {MEGABYTES} MB, by its size, at worst",
        worst,
        "a copy is made on the way, in the case that the table shows",
    )


def _growth(operation: str, kind: str, database: str, url: str, compression: str) -> float:
    command = [sys.executable, "-m", "bench.offload.memory_side"]
    given = [operation, kind, database, url, compression, str(MEGABYTES * 2**20)]
    done = subprocess.run([*command, *given], capture_output=True, text=True, check=True)
    return int(done.stdout) / (MEGABYTES * 2**20)
