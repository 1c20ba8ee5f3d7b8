"""A directory with an embedded store in it, in which DAG files are run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.commands import GetResults
from holdfast.model.value import decode
from holdfast.stores.sql import SqlStore

PROGRAM = Path(sys.executable).with_name("holdfast")
DAGS = Path(__file__).with_name("dags")
_ROOT = Path(__file__).parents[2]


class RunFailed(Exception):
    """The last lines that `holdfast run` said."""


class Project:
    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self.url = f"sqlite:///{directory}/.holdfast/holdfast.db"
        self._runs = 0

    def run(self, dag_id: str, **conf: Any) -> float:
        """Run the DAG in the file of that name to its end; how many seconds that took."""
        start = time.perf_counter()
        with self.started(dag_id, **conf):
            pass
        return time.perf_counter() - start

    @contextmanager
    def started(self, dag_id: str, **conf: Any) -> Iterator[subprocess.Popen[bytes]]:
        """The same, in a block that runs meanwhile."""
        self._runs += 1
        log = self.directory / "run.log"
        with (
            log.open("w") as log_file,
            subprocess.Popen(
                [
                    *(PROGRAM, "run", DAGS / f"{dag_id}.py"),
                    *("--run-id", str(self._runs), "--conf", json.dumps(conf)),
                ],
                cwd=self.directory,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
                stdout=log_file,
                stderr=log_file,
            ) as process,
        ):
            yield process
        if process.returncode:
            raise RunFailed(f"{dag_id}: {'; '.join(log.read_text().splitlines()[-2:])}")

    def result(self, dag_id: str, task_id: str) -> Any:
        """What a task returned in the run before."""
        with SqlStore(self.url) as store:
            ((_, result),) = store.execute(GetResults(dag_id, str(self._runs), task_id))
        return decode(result)
