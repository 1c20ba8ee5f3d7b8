"""`spark-submit` as the client of a cluster: it submits or asks, and ends."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Final, NamedTuple

from holdfast.errors import SparkUnavailable
from holdfast.spark.jobs.submission import (
    Submission,
    spark_environment,
    spark_home,
    submit_command,
)
from holdfast.spark.session.properties import properties

LIMIT: Final = 300.0
_SHOWN: Final = 8


class Said(NamedTuple):
    status: int
    output: str


def run(*args: str) -> Said:
    """`spark-submit` with these arguments, to its end."""
    return _finished([str(spark_home() / "bin" / "spark-submit"), *args])


def spark_submit(submission: Submission, master: str, settings: Mapping[str, str]) -> None:
    """Submit in cluster mode; SparkUnavailable, with what it said last, where that failed."""
    with properties(settings) as file:
        said = _finished(submit_command(submission, master, "cluster", file))
    if said.status != 0:
        last = "\n".join(said.output.splitlines()[-_SHOWN:])
        raise SparkUnavailable(
            f"spark-submit ended with exit status {said.status}:\n{last}",
            hint="check that this machine is a client of the cluster",
        )


def _finished(command: list[str]) -> Said:
    try:
        done = subprocess.run(
            command,
            env=spark_environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkUnavailable(
            f"{command[0]} failed: {error}", hint="set SPARK_HOME to where Spark is installed"
        ) from error
    return Said(done.returncode, done.stdout.decode(errors="replace"))
