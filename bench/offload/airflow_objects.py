"""Airflow's object storage backend as a contender: a process that is asked to work."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from filecmp import cmp
from pathlib import Path
from shutil import copyfile, rmtree

from bench import airflow

_REQUIREMENTS = Path(__file__).with_name("airflow-requirements.txt")
_PACKAGES = airflow.PYTHON.parents[1] / "s3"
"""What its backend needs for S3, beside what Airflow itself has."""


def install() -> None:
    """Make the environment, unless it is there."""
    airflow.install()
    installed = _PACKAGES / "installed.txt"
    if installed.exists() and cmp(_REQUIREMENTS, installed, shallow=False):
        return
    rmtree(_PACKAGES, ignore_errors=True)
    airflow.call(
        *(airflow.PYTHON, "-m", "pip", "install", "-qq", "--no-deps"),
        *("--target", _PACKAGES, "--requirement", _REQUIREMENTS),
    )
    copyfile(_REQUIREMENTS, installed)


class AirflowObjects:
    """A process with Airflow in it."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def ask(self, what: str, numbers: range, size: int, at_once: int) -> float:
        """Have it write or read values; how many seconds that took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"do": what, "numbers": list(numbers), "size": size, "at_once": at_once}
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise airflow.AirflowFailed(airflow.last_line(self._log.read_text()))
        return float(answer)


@contextmanager
def start(directory: Path, url: str) -> Iterator[AirflowObjects]:
    """Airflow whose values go there."""
    environ = {
        **os.environ,
        "PYTHONPATH": str(_PACKAGES),
        "AIRFLOW_HOME": str(directory),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "AIRFLOW__COMMON_IO__STATE_STORE_OBJECTSTORAGE_PATH": url,
    }
    log = directory / "airflow.log"
    with (
        log.open("w") as log_file,
        subprocess.Popen(
            [airflow.PYTHON, Path(__file__).with_name("airflow_side.py")],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_file,
            text=True,
        ) as process,
    ):
        try:
            yield AirflowObjects(process, log)
        finally:
            process.terminate()
