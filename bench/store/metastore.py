"""Airflow's `MetastoreBackend` as a contender: a process that is asked to work."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bench import airflow
from bench.rounds import Work
from bench.store.databases import Databases
from bench.workload import KEYS, TEXTS


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
            raise airflow.AirflowFailed(airflow.last_line(self._log.read_text()))
        return float(answer)


@contextmanager
def start(databases: Databases, kind: str) -> Iterator[Airflow]:
    """Airflow over a new database."""
    url = sa.make_url(databases.make(kind, "airflow"))
    if kind == "postgresql":
        url = url.set(drivername="postgresql+psycopg2")
    environ = airflow.make_home(
        databases.directory / f"airflow-{kind}", url.render_as_string(hide_password=False)
    )
    log = databases.directory / f"airflow-{kind}.log"
    with (
        log.open("w") as log_file,
        subprocess.Popen(
            [airflow.PYTHON, Path(__file__).with_name("metastore_side.py")],
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
