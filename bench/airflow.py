"""Airflow in an environment of its own, to measure beside: installed on demand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "3.3.2"

_ENVIRONMENT = Path(__file__).with_name(".venv-airflow")
PROGRAM = _ENVIRONMENT / "bin" / "airflow"
PYTHON = _ENVIRONMENT / "bin" / "python"
_PACKAGES = (f"apache-airflow=={VERSION}", "asyncpg", "psycopg2-binary")


class AirflowFailed(Exception):
    """The last line that it, or its installer, said."""


def install() -> None:
    """Make the environment, unless it is there."""
    if PROGRAM.exists():
        return
    if uv := shutil.which("uv"):
        call(uv, "venv", "--clear", _ENVIRONMENT, "--python", sys.executable)
        call(uv, "pip", "install", "--python", PYTHON, *_PACKAGES)
    else:
        call(sys.executable, "-m", "venv", "--clear", _ENVIRONMENT)
        call(PYTHON, "-m", "pip", "install", "--quiet", *_PACKAGES)


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
