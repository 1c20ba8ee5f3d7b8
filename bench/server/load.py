"""Many clients at once, each a process with an attempt and a token of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean, quantiles
from typing import NamedTuple

import psutil

from bench.server.servers import HoldfastServer, ServerFailed, Task
from bench.size import SIZE

CLIENTS = SIZE.of(2, 16, 16)
SETTLED = SIZE.of(1, 10, 10)
"""Seconds after which the server should need no more memory."""

_ROOT = Path(__file__).parents[2]


class Times(NamedTuple):
    """Of one operation, in seconds."""

    calls: int
    mean: float
    p99: float
    worst: float


class Load(NamedTuple):
    times: dict[str, Times]
    """By operation."""
    errors: list[str]
    growth: int
    """Bytes that the server's memory grew by after it had settled."""
    memory: int
    """Bytes that it had at the end."""
    cores: dict[str, float]
    """Processor time by who used it, as a number of cores."""


def measure(server: HoldfastServer, seconds: int) -> Load:
    clients = [_start(server.begin_task(f"load_{n}")) for n in range(CLIENTS)]
    try:
        for client in clients:
            assert client.stdout is not None
            if not client.stdout.readline():
                raise ServerFailed("a client ended before it had begun")
        process = psutil.Process(server.pid)
        used, busy = _processor_time(process), _busy()
        for client in clients:
            print(seconds, file=client.stdin, flush=True)
        memory = _watch(process, seconds)
        used, busy = _processor_time(process) - used, _busy() - busy
        reports = [json.loads(client.communicate()[0]) for client in clients]
    finally:
        for client in clients:
            client.kill()
            client.communicate()
    return Load(
        {
            what: _times([call for report in reports for call in report["seconds"][what]])
            for what in reports[0]["seconds"]
        },
        [error for report in reports for error in report["errors"]],
        memory[-1] - memory[0],
        memory[-1],
        {
            "the server": used / seconds,
            f"the {CLIENTS} clients": sum(report["processor"] for report in reports) / seconds,
            "all that runs on the machine": busy / seconds,
        },
    )


def _start(task: Task) -> subprocess.Popen[str]:
    client = subprocess.Popen(
        [sys.executable, "-m", "bench.server.load_side"],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    print(json.dumps(task._asdict()), file=client.stdin, flush=True)
    return client


def _watch(process: psutil.Process, seconds: int) -> list[int]:
    """Its memory, second by second, from when it should have settled to the end."""
    start = time.monotonic()
    memory = []
    for second in range(SETTLED, seconds + 1):
        time.sleep(max(0.0, start + second - time.monotonic()))
        memory.append(sum(one.memory_info().rss for one in _family(process)))
    return memory


def _family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def _processor_time(process: psutil.Process) -> float:
    times = [one.cpu_times() for one in _family(process)]
    return sum(one.user + one.system for one in times)


def _busy() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system)


def _times(calls: list[float]) -> Times:
    return Times(len(calls), mean(calls), quantiles(calls, n=100)[-1], max(calls))
