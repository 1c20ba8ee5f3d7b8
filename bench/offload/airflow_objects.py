"""Airflow's object storage backend as a contender: a process that is asked to work."""

from __future__ import annotations

import os
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


@contextmanager
def start(directory: Path, url: str) -> Iterator[airflow.Worker]:
    """Airflow whose values go there."""
    environ = {
        **os.environ,
        "PYTHONPATH": str(_PACKAGES),
        "AIRFLOW_HOME": str(directory),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "AIRFLOW__COMMON_IO__STATE_STORE_OBJECTSTORAGE_PATH": url,
    }
    program = Path(__file__).with_name("airflow_side.py")
    with airflow.worker(program, environ, directory / "airflow.log") as worker:
        yield worker
