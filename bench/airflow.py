"""Airflow in an environment of its own, to measure beside: installed on demand."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.size import SIZE, Size

VERSION = "3.3.2"

_ROOT = Path(__file__).parents[1]
PROGRAM = _ROOT / ".venv-airflow/bin/airflow"
PYTHON = _ROOT / ".venv-airflow/bin/python"


class AirflowFailed(Exception):
    """The last line that it, or its installer, said."""


def install() -> None:
    """Make the environment, unless it is there. A tiny run goes without."""
    if SIZE is Size.TINY and not PYTHON.exists():
        raise AirflowFailed("it is not installed")
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


class Worker:
    """A process with Airflow in it, which is asked to work."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def ask(self, what: str, **details: Any) -> float:
        """Have it do something; how many seconds that took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": what, **details}), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise AirflowFailed(last_line(self._log.read_text()))
        return float(answer)


@contextmanager
def worker(program: Path, environ: dict[str, str], log: Path) -> Iterator[Worker]:
    """A process that runs the program for as long as the block lasts."""
    with (
        log.open("w") as log_file,
        subprocess.Popen(
            [PYTHON, program],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_file,
            text=True,
        ) as process,
    ):
        try:
            yield Worker(process, log)
        finally:
            process.terminate()
