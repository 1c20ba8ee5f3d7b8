"""Airflow's `MetastoreBackend` as a contender: a process that is asked to work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from bench import airflow
from bench.rounds import Work
from bench.store.databases import Databases
from bench.workload import KEYS, TEXTS


class Airflow:
    """A process with Airflow in it, over an empty metadata database."""

    def __init__(self, worker: airflow.Worker, environ: dict[str, str]) -> None:
        self.environ = environ
        """For other commands over the same database."""
        self.ask = worker.ask
        self.ask("start", keys=KEYS, texts=TEXTS)

    def work(self, what: str) -> Work:
        """Its `set` or `get`, as a contender."""
        return lambda times: self.ask(what, times=times)


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
    program = Path(__file__).with_name("metastore_side.py")
    with airflow.worker(program, environ, log) as worker:
        yield Airflow(worker, environ)
