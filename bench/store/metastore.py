"""Airflow in an environment of its own, as a contender: installed and started on demand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bench.store.databases import Databases
from bench.store.rounds import Work
from bench.store.workload import KEYS, TEXTS

VERSION = "3.3.2"

_ENVIRONMENT = Path(__file__).parents[1] / ".venv-airflow"
PROGRAM = _ENVIRONMENT / "bin" / "airflow"
_PYTHON = _ENVIRONMENT / "bin" / "python"
_PACKAGES = (f"apache-airflow=={VERSION}", "asyncpg", "psycopg2-binary")


class AirflowFailed(Exception):
    """The last line that it, or its installer, said."""


def install() -> None:
    """Make the environment, unless it is there."""
    if PROGRAM.exists():
        return
    if uv := shutil.which("uv"):
        _call(uv, "venv", "--clear", _ENVIRONMENT, "--python", sys.executable)
        _call(uv, "pip", "install", "--python", _PYTHON, *_PACKAGES)
    else:
        _call(sys.executable, "-m", "venv", "--clear", _ENVIRONMENT)
        _call(_PYTHON, "-m", "pip", "install", "--quiet", *_PACKAGES)


class Airflow:
    """A process with Airflow in it, over an empty metadata database."""

    def __init__(self, process: subprocess.Popen[str], log: Path, environ: dict[str, str]) -> None:
        self._process = process
        self._log = log
        self.environ = environ
        """For other commands over the same database."""
        self.ask("start", keys=KEYS, texts=TEXTS)

    def work(self, what: str) -> Work:
        """Its `set` or `get`, as a contender."""
        return lambda times: self.ask(what, times=times)

    def ask(self, what: str, **details: Any) -> float:
        """Have it do something; how many seconds that took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": what, **details}), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise AirflowFailed(_last_line(self._log.read_text()))
        return float(answer)


@contextmanager
def start(databases: Databases, kind: str) -> Iterator[Airflow]:
    """Airflow over a new database."""
    environ = _environment(databases, kind)
    _call(PROGRAM, "db", "migrate", env=environ)
    log = databases.directory / f"airflow-{kind}.log"
    # Without -P, this directory's own airflow.py would be found in place of the package.
    with (
        log.open("w") as log_file,
        subprocess.Popen(
            [_PYTHON, "-P", Path(__file__).with_name("airflow_side.py")],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_file,
            text=True,
        ) as process,
    ):
        try:
            yield Airflow(process, log, environ)
        finally:
            process.terminate()


def _environment(databases: Databases, kind: str) -> dict[str, str]:
    url = sa.make_url(databases.make(kind, "airflow"))
    if kind == "postgresql":
        url = url.set(drivername="postgresql+psycopg2")
    return {
        **os.environ,
        "AIRFLOW_HOME": str(databases.directory / f"airflow-{kind}"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url.render_as_string(hide_password=False),
    }


def _call(*command: str | Path, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AirflowFailed(_last_line(done.stdout + done.stderr))


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it ended without a word"
