"""A real `holdfast server`, and the commands of those who use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from holdfast.model.entry import TaskWriter
from holdfast.model.scope import TaskScope
from holdfast.stores.sql import SqlStore

PROGRAM = Path(sys.executable).with_name("holdfast")


class Task(NamedTuple):
    """A task whose attempt is under way, and what its worker is told."""

    scope: TaskScope
    attempt: int
    ti_id: str
    token: str

    @property
    def writer(self) -> TaskWriter:
        return TaskWriter(self.scope, self.attempt)


class HoldfastServer:
    """The server, in a directory of its own."""

    def __init__(self, url: str, store: SqlStore, directory: Path, environ: dict[str, str]) -> None:
        self.url = url
        self.store = store
        self._directory = directory
        self._environ = environ

    def task(self, task_id: str, *assets: str, options: tuple[str, ...] = ()) -> Task:
        """A task whose attempt is under way, told by the command that is for workers of one's own.
        It begins an attempt where there is none."""
        scope = TaskScope("sales", "monday", task_id)
        names = ["--dag-id", scope.dag_id, "--run-id", scope.run_id, "--task-id", scope.task_id]
        declared = [word for asset in assets for word in ("--asset", asset)]
        done = subprocess.run(
            [PROGRAM, "auth", "task-token", *names, *declared, *options],
            cwd=self._directory,
            env=self._environ,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        told = json.loads(done.stdout)
        return Task(scope, told["attempt"], told["ti_id"], told["token"])


@contextmanager
def running_server(database_url: str, directory: Path) -> Iterator[HoldfastServer]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")}
    environ = inherited | {"HOLDFAST__DATABASE__URL": database_url}
    with (
        SqlStore(database_url) as store,
        (directory / "server.log").open("w") as log,
        subprocess.Popen(
            [PROGRAM, "server", "--port", "0"],
            cwd=directory,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            address = process.stdout.readline().removeprefix("listening on ").strip()
            yield HoldfastServer(address, store, directory, environ)
        finally:
            process.terminate()
