"""Working directory of the pipeline, with a store and a warehouse of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import holdfast
from holdfast.commands import GetResults, List, ListAttempts, ListTaskInstances, TaskFilter
from holdfast.model.run import AttemptInfo
from holdfast.model.scope import TaskScope

PIPELINE = Path(__file__).with_name("pipeline.py")
DAG = "flights"
PATIENCE = 300.0
"""Timeout in seconds for each wait."""


class Day(NamedTuple):
    """A day that `ingest` has recorded in its task store."""

    map_index: int
    day: str
    rows: int
    version: int
    """The version of the record; it changes if the day is recorded again."""
    attempt: int
    """The attempt that recorded it."""


class Workplace:
    """A working directory, as a context manager that stops running processes at its end."""

    def __init__(self, directory: Path, landing: Path, remote: str, *, quiet: bool = False) -> None:
        """Write the output of runs to a file `run.log` if `quiet`."""
        directory.mkdir(parents=True)
        self.directory = directory
        self.warehouse = directory / "warehouse"
        self._conf = json.dumps({"landing": str(landing), "warehouse": str(self.warehouse)})
        self.environment = os.environ | {
            "HOLDFAST__CORE__HOME": str(directory),
            "HOLDFAST__SPARK__REMOTE": remote,
        }
        self._connection = holdfast.connect(f"sqlite:///{directory}/holdfast.db")
        self._log = (directory / "run.log").open("a") if quiet else None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Workplace:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        if self._log is not None:
            self._log.close()
        self._connection.close()

    def run(self, run_id: str) -> None:
        """Carry out a new run to its end."""
        self.begin(run_id)
        self.finish()

    def begin(self, run_id: str) -> None:
        """Start a new run."""
        self._start("--run-id", run_id, "--conf", self._conf)

    def go_on(self, run_id: str) -> None:
        """Resume an interrupted run."""
        self._start("--run-id", run_id)

    def finish(self) -> None:
        """Wait for the end of the run, which has to succeed."""
        assert self._process is not None
        status = self._process.wait()
        if status != 0:
            told = f"; see {self._log.name}" if self._log else ""
            raise SystemExit(f"error: holdfast run ended with status {status}{told}")

    def kill(self) -> int:
        """Kill `holdfast run` itself, and return the pid that it had."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        return self._process.pid

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition while a run is active."""
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("error: what the demo waited for did not happen")
            time.sleep(0.1)

    def show(self, *arguments: str) -> str:
        """Return the output of a command of Holdfast."""
        command = [sys.executable, "-m", "holdfast", *arguments]
        return subprocess.check_output(command, env=self.environment, text=True)

    def days(self, run_id: str) -> list[Day]:
        """Return the days that `ingest` has recorded in a run."""
        attempts = {
            one.scope: self.attempts(run_id, one.scope.map_index)
            for one in self._ask(ListTaskInstances(dag_id=DAG, run_id=run_id, task_id="ingest"))
        }
        page = self._ask(List(TaskFilter(DAG, run_id, "ingest"), prefix="2"))
        return [
            Day(
                scope.map_index,
                entry.key,
                int(entry.value),
                entry.version,
                sum(attempt.started_at <= entry.updated_at for attempt in attempts[scope]),
            )
            for scope, entry in ((one.scope, one.entry) for one in page.found)
        ]

    def attempts(self, run_id: str, map_index: int) -> tuple[AttemptInfo, ...]:
        """Return the attempts of a map index of `ingest`."""
        return self._ask(ListAttempts(TaskScope(DAG, run_id, "ingest", map_index)))

    def result(self, run_id: str, task_id: str) -> Any:
        """Return the result of a task."""
        [(_, text)] = self._ask(GetResults(DAG, run_id, task_id))
        return json.loads(text)

    def _ask(self, command: Any) -> Any:
        return self._connection.store.execute(command)

    def _start(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "holdfast", "run", str(PIPELINE), *arguments]
        self._process = subprocess.Popen(command, env=self.environment, stderr=self._log)
