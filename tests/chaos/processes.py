"""Worker processes for the chaos tests: quick to start, easy to kill, with a pipe for reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from forks import forks

Pipe: TypeAlias = "Connection[Any, Any]"


class Worker:
    """Process that runs `work(pipe, *args)`."""

    def __init__(self, work: Callable[..., None], *args: Any) -> None:
        self.pipe, theirs = forks().Pipe()
        self.process = forks().Process(target=work, args=(theirs, *args), daemon=True)
        self.process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def reports_until(self, deadline: float) -> Iterator[Any]:
        """Yield its reports up to that time (of `time.monotonic`), or up to its end."""
        try:
            while self.pipe.poll(max(0.0, deadline - time.monotonic())):
                yield self.pipe.recv()
        except (EOFError, ConnectionResetError):
            return

    def kill(self) -> None:
        """Kill it with SIGKILL, and wait until it has ended."""
        self.process.kill()
        self.process.join()

    def finish(self, timeout: float = 600) -> list[Any]:
        """Wait for its end, which must be a good one; all that it still had to report."""
        reports = list(self.reports_until(time.monotonic() + timeout))
        self.process.join(timeout)
        assert self.process.exitcode == 0, f"a worker ended with {self.process.exitcode}"
        return reports


def wait_for_start(pipe: Pipe) -> None:
    """Wait, in a worker, until all others are ready too."""
    pipe.send("ready")
    pipe.recv()


def start_together(workers: list[Worker]) -> None:
    for worker in workers:
        assert worker.pipe.recv() == "ready"
    for worker in workers:
        worker.pipe.send("go")


@contextmanager
def workers(count: int, work: Callable[..., None], *args: Any) -> Iterator[list[Worker]]:
    """Yield that many processes, which get their number after the other arguments and are killed at
    the end."""
    started = [Worker(work, *args, number) for number in range(count)]
    try:
        yield started
    finally:
        for worker in started:
            worker.kill()
            worker.pipe.close()
