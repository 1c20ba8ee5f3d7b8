"""Spark servers under a keeper, and their processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from holdfast.model.run import Process
from holdfast.spark.session.address import SparkAddress, SparkStartup

KEEPER = Path(__file__).with_name("keeper.py")


@dataclass
class Kept:
    """Keeper's process and the address of its server."""

    keeper: subprocess.Popen[str]
    address: SparkAddress

    def processes(self) -> list[psutil.Process]:
        """Return the processes of the server, and all that it has started."""
        return psutil.Process(self.keeper.pid).children(recursive=True)


@contextmanager
def kept_server(
    directory: Path,
    *,
    master: str = "",
    conf: dict[str, str] | None = None,
    runner: Process | None = None,
) -> Iterator[Kept]:
    """Yield a server; kill its whole process group at the end."""
    with start_keeper(directory, master=master, conf=conf, runner=runner) as keeper:
        try:
            assert keeper.stdout is not None
            told = keeper.stdout.readline()
            yield Kept(keeper, msgspec.json.decode(told, type=SparkAddress))
        finally:
            os.killpg(keeper.pid, signal.SIGKILL)


def start_keeper(
    directory: Path,
    *,
    master: str = "",
    conf: dict[str, str] | None = None,
    runner: Process | None = None,
) -> subprocess.Popen[str]:
    startup = SparkStartup(master=master, conf=conf or {}, directory=str(directory), runner=runner)
    return subprocess.Popen(
        [sys.executable, KEEPER, msgspec.json.encode(startup).decode()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=directory,
    )


def await_end(processes: list[psutil.Process], seconds: float = 10) -> list[psutil.Process]:
    """Return the processes that still run after that time."""
    return psutil.wait_procs(processes, timeout=seconds)[1]


def await_true(condition: object, seconds: float = 20) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)
