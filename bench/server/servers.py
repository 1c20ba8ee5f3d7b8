"""Both servers, one process each, and a token of a running task for each client."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from bench import airflow
from bench.store.databases import Databases
from bench.workload import SCOPE

_HOLDFAST = Path(sys.executable).with_name("holdfast")
_PATIENCE = 120


class ServerFailed(Exception):
    """The last line that a server, or a command about it, said."""


class Task(NamedTuple):
    """A running task instance, as its worker knows it."""

    url: str
    """Of the server."""
    names: tuple[str, str, str]
    ti_id: str
    token: str


class HoldfastServer:
    """Our server."""

    def __init__(self, url: str, pid: int, environ: dict[str, str], directory: Path) -> None:
        self.url = url
        self.pid = pid
        self._environ = environ
        self._directory = directory

    def begin_task(self, task_id: str) -> Task:
        """Begin a task's first attempt, as anyone does who has a worker."""
        names = (SCOPE.dag_id, SCOPE.run_id, task_id)
        options = ("--dag-id", "--run-id", "--task-id")
        given = [word for pair in zip(options, names, strict=True) for word in pair]
        command: list[str | Path] = [_HOLDFAST, "auth", "task-token", *given]
        return Task(self.url, names, **_printed(command, self._environ, self._directory))


@contextmanager
def holdfast_server(databases: Databases) -> Iterator[HoldfastServer]:
    directory = databases.directory / "holdfast-server"
    directory.mkdir()
    environ = {
        **os.environ,
        "HOLDFAST__DATABASE__URL": databases.make_store("postgresql", "holdfast_server"),
    }
    port = _free_port()
    command: list[str | Path] = [_HOLDFAST, "server", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with _running(command, environ, directory, f"{url}/health") as pid:
        yield HoldfastServer(url, pid, environ, directory)


@contextmanager
def airflow_server(databases: Databases) -> Iterator[Task]:
    """A running task in the database of Airflow's server."""
    url = sa.make_url(databases.make("postgresql", "airflow_server"))
    directory = databases.directory / "airflow-server"
    environ = airflow.make_home(
        directory, url.set(drivername="postgresql+psycopg2").render_as_string(hide_password=False)
    )
    environ["AIRFLOW__API_AUTH__JWT_SECRET"] = secrets.token_hex(32)
    names = (SCOPE.dag_id, SCOPE.run_id, SCOPE.task_id)
    script = Path(__file__).with_name("airflow_task.py")
    task = _printed([airflow.PYTHON, script, *names], environ, directory)
    port = _free_port()
    command: list[str | Path] = [
        airflow.PROGRAM,
        "api-server",
        "--apps",
        "execution",
        "--workers",
        "1",
    ]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    address = f"http://127.0.0.1:{port}"
    with _running(command, environ, directory, f"{address}/execution/health"):
        yield Task(address, names, **task)


@contextmanager
def _running(
    command: list[str | Path], environ: dict[str, str], directory: Path, health: str
) -> Iterator[int]:
    """The process, from when it is well until the end of the block."""
    log = directory / "server.log"
    with (
        log.open("w") as log_file,
        subprocess.Popen(
            command, env=environ, cwd=directory, stdout=log_file, stderr=log_file
        ) as process,
    ):
        try:
            deadline = time.monotonic() + _PATIENCE
            while not _is_well(health):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise ServerFailed(f"{command[0]}: {airflow.last_line(log.read_text())}")
                time.sleep(0.2)
            yield process.pid
        finally:
            process.terminate()


def _is_well(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except OSError:
        return False


def _printed(command: list[str | Path], environ: dict[str, str], directory: Path) -> dict[str, str]:
    done = subprocess.run(
        command, env=environ, cwd=directory, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ServerFailed(airflow.last_line(done.stdout + done.stderr))
    printed: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return {name: printed[name] for name in ("ti_id", "token")}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
