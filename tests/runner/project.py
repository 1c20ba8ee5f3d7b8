"""Project of a test: DAG files, a store, and `holdfast` commands on them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple
from uuid import uuid4

from holdfast import commands as c
from holdfast.model.run import AttemptInfo, Run, TaskInstance, TaskState
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import decode
from holdfast.stores.sql import SqlStore

MARK = "PROJECT_OF_THE_TEST"
PATIENT = timedelta(seconds=10)


class Result(NamedTuple):
    status: int
    out: str
    err: str


class Started(subprocess.Popen[str]):
    """Command that has ended at the end of its `with` block."""

    def __exit__(self, *exception: Any) -> None:
        self.kill()
        super().__exit__(*exception)


class Project:
    """Working directory. Every process that it starts is identified by its environment."""

    def __init__(self, directory: Path, **environ: str) -> None:
        self.directory = directory
        self.mark = uuid4().hex
        self.groups: set[int] = set()
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")}
        self.environ = inherited | {MARK: self.mark, "HOLDFAST__API__PORT": "0"} | environ
        self.url = (
            environ.get("HOLDFAST__DATABASE__URL") or f"sqlite:///{self.home / 'holdfast.db'}"
        )
        self._store: SqlStore | None = None

    @property
    def home(self) -> Path:
        return self.directory / ".holdfast"

    @property
    def store(self) -> SqlStore:
        """Return the store of the commands, once one of them has run."""
        if self._store is None:
            self._store = SqlStore(self.url, retry_window=PATIENT)
        return self._store

    def forget_store(self) -> None:
        """Close the store; it is opened again when it is used."""
        if self._store is not None:
            self._store.close()
        self._store = None

    def path(self, name: str) -> Path:
        return self.directory / name

    def read(self, name: str) -> str:
        """Return the text of a file that tasks write, empty if it is missing."""
        path = self.path(name)
        return path.read_text() if path.exists() else ""

    def write(self, name: str, text: str) -> str:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return name

    def holdfast(self, *args: str, timeout: float = 180, **environ: str) -> Result:
        """Run a command to its end."""
        with self.start(*args, **environ) as started:
            out, err = started.communicate(timeout=timeout)
        return Result(started.returncode, out, err)

    def start(self, *args: str, **environ: str) -> Started:
        """Start a command in its own process group."""
        started = Started(
            [sys.executable, "-m", "holdfast", *args],
            cwd=self.directory,
            env=self.environ | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self.groups.add(started.pid)
        return started

    @contextmanager
    def service(self, *args: str, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
        """Yield a command that runs until it is stopped; its messages go to `<command>.err`."""
        with (
            self.path(f"{args[0]}.err").open("ab") as errors,
            subprocess.Popen(
                [sys.executable, "-m", "holdfast", *args],
                cwd=self.directory,
                env=self.environ | environ,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            ) as process,
        ):
            self.groups.add(process.pid)
            try:
                yield process
            finally:
                process.terminate()
                process.wait(timeout=60)

    def run_dag(self, text: str, *args: str, **environ: str) -> Result:
        """Run the only DAG of a file, as run `r`."""
        return self.holdfast("run", self.write("dag.py", text), "--run-id", "r", *args, **environ)

    def run_of(self, dag_id: str = "d", run_id: str = "r") -> Run:
        return self.store.execute(c.GetRun(dag_id, run_id))

    def runs(self, dag_id: str) -> list[Run]:
        """Return the runs, oldest first."""
        return list(reversed(self.store.execute(c.ListRuns(dag_id=dag_id))))

    def tasks(self, dag_id: str = "d", run_id: str = "r") -> dict[str, TaskInstance]:
        """Return the task instances by task id, with the map index in brackets."""
        listed = self.store.execute(c.ListTaskInstances(dag_id=dag_id, run_id=run_id))
        return {_label(one.scope): one for one in listed if one.state is not TaskState.REMOVED}

    def states(self, dag_id: str = "d", run_id: str = "r") -> dict[str, str | None]:
        return {label: one.state for label, one in self.tasks(dag_id, run_id).items()}

    def attempts(self, task_id: str, dag_id: str = "d", run_id: str = "r") -> list[AttemptInfo]:
        return list(self.store.execute(c.ListAttempts(TaskScope(dag_id, run_id, task_id))))

    def result(self, task_id: str, dag_id: str = "d", run_id: str = "r") -> list[Any]:
        """Return the results of a task as a list, as it may be mapped."""
        found = self.store.execute(c.GetResults(dag_id, run_id, task_id))
        return [decode(text) for _, text in found]

    def task_store(self, task_id: str, dag_id: str = "d", run_id: str = "r") -> dict[str, Any]:
        return self._entries(c.TaskFilter(dag_id, run_id, task_id))

    def asset_store(self, name: str) -> dict[str, Any]:
        return self._entries(AssetScope(name=name))

    def events(self, name: str) -> list[Any]:
        """Return the extras of the events of an asset, oldest first."""
        found = self.store.execute(c.ListAssetEvents(AssetScope(name=name), limit=10_000))
        return [decode(event.extra) for event in reversed(found)]

    def _entries(self, where: c.Where) -> dict[str, Any]:
        found = self.store.execute(c.List(where)).found
        return {one.entry.key: decode(one.entry.value) for one in found}

    def log(self, task: str, attempt: int = 1) -> str:
        """Return the log of an attempt in run `r` of DAG `d`; `task` may end in `.<map index>`."""
        return (self.home / "logs" / "d" / "r" / task / f"{attempt}.log").read_text()

    def processes(self, command: str = "") -> list[int]:
        """Return the living processes of this project, or those of them with that text in the
        command line, oldest first."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for pid, state, relatives in _all_processes():
            with suppress(OSError):
                entry = Path("/proc", str(pid))
                # Only root can read the environment of a process that is not dumpable.
                own = not self.groups.isdisjoint(relatives)
                if own or wanted in (entry / "environ").read_bytes():
                    self.groups.add(pid)
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    if state != "Z" and command in line:
                        found.append(pid)
        return found

    def close(self) -> list[int]:
        """Kill the processes that are left, and return them."""
        if self._store is not None:
            self._store.close()
        with suppress(TimeoutError):
            wait_until(lambda: not self.processes(), timeout=10)
        left = self.processes()
        send_signal(left, signal.SIGKILL)
        return left


def _all_processes() -> list[tuple[int, str, tuple[int, int]]]:
    """Return the processes of this machine, oldest first, whatever their numbers, which begin anew
    at the highest: each with its state, its parent and its group."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            relatives = int(stat[1]), int(stat[2])
            found.append((int(stat[19]), int(entry.name), stat[0], relatives))
    return [one[1:] for one in sorted(found)]


def send_signal(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes, some of which may end because others got it first."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@contextmanager
def new_project(directory: Path, **environ: str) -> Iterator[Project]:
    """Yield a project; assert that no process of it is left at the end."""
    project = Project(directory, **environ)
    try:
        yield project
    finally:
        left = project.close()
    assert not left, f"processes were left behind: {left}"


def wait_until(true: Callable[[], Any], timeout: float = 30, pause: float = 0.05) -> None:
    deadline = time.monotonic() + timeout
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so within {timeout} s")
        time.sleep(pause)


def _label(scope: TaskScope) -> str:
    return f"{scope.task_id}[{scope.map_index}]" if scope.map_index >= 0 else scope.task_id
