"""Airflow in an environment of its own, to measure beside: installed on demand."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

VERSION = "3.3.2"

_ROOT = Path(__file__).parents[1]
PROGRAM = _ROOT / ".venv-airflow/bin/airflow"
PYTHON = _ROOT / ".venv-airflow/bin/python"


class AirflowFailed(Exception):
    """The last line that it, or its installer, said."""


def install() -> None:
    """Make the environment, unless it is there."""
    call(_ROOT / "setup/install_airflow.sh")


def make_home(directory: Path, url: str) -> dict[str, str]:
    """Its directory and its tables in an empty database; the environment of commands on them."""
    environ = {
        **os.environ,
        "AIRFLOW_HOME": str(directory),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url,
    }
    call(PROGRAM, "db", "migrate", env=environ)
    return environ


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it ended without a word"


def call(*command: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AirflowFailed(last_line(done.stdout + done.stderr))
