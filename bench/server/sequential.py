"""One client that does one `set` or `get` after the other, each with its server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from bench import airflow
from bench.rounds import ROUNDS, TURNS, in_turns
from bench.server.servers import HoldfastServer, ServerFailed, Task
from bench.workload import KEYS, VALUES

AIRFLOW = f"Airflow {airflow.VERSION}: its client, its server"
MIXED = "Airflow's client, our server"
OURS = "our client, our server"

OPERATIONS = ("set", "get")

_TURN = {AIRFLOW: 4, MIXED: 12, OURS: 24}
"""Calls before it is the next one's turn."""
_ROOT = Path(__file__).parents[2]


class Pace(NamedTuple):
    rate: float
    """Calls a second: the median of the rounds."""
    p50: float
    """Of all calls, in seconds; as is the next."""
    p99: float


class Client:
    """A client in a process of its own, which is asked to work."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def tell(self, what: object) -> None:
        print(json.dumps(what), file=self._process.stdin, flush=True)

    def calls(self, what: str, times: int) -> list[float]:
        """Have it call an operation so often; the seconds that each call took."""
        self.tell({"do": what, "times": times})
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise ServerFailed(f"a client: {airflow.last_line(self._log.read_text())}")
        seconds: list[float] = json.loads(answer)
        return seconds


def measure(
    directory: Path, server: HoldfastServer, airflow_task: Task | None
) -> dict[str, dict[str, Pace]]:
    """The pace of each contender, by operation."""
    with ExitStack() as stack:

        def start(name: str, python: str | Path, module: str, task: Task) -> Client:
            return stack.enter_context(_client(directory / name, python, module, task))

        clients = {OURS: start("ours.log", sys.executable, "holdfast_side", server.begin_task("a"))}
        if airflow_task is not None:
            theirs = (airflow.PYTHON, "airflow_side")
            clients[MIXED] = start("mixed.log", *theirs, server.begin_task("b"))
            clients[AIRFLOW] = start("airflow.log", *theirs, airflow_task)
        return {what: _paces(what, clients) for what in OPERATIONS}


def _paces(what: str, clients: Mapping[str, Client]) -> dict[str, Pace]:
    for client in clients.values():
        client.calls(what, len(KEYS))
    rounds: dict[str, list[float]] = {name: [] for name in clients}
    calls: dict[str, list[float]] = {name: [] for name in clients}
    for _ in range(ROUNDS):
        spent = dict.fromkeys(clients, 0.0)
        for turn in range(TURNS):
            for name in in_turns(list(clients), turn):
                seconds = clients[name].calls(what, _TURN[name])
                spent[name] += sum(seconds)
                calls[name] += seconds
        for name, total in spent.items():
            rounds[name].append(total)
    return {
        name: Pace(
            _TURN[name] * TURNS / median(rounds[name]),
            median(calls[name]),
            quantiles(calls[name], n=100)[-1],
        )
        for name in clients
    }


@contextmanager
def _client(log: Path, python: str | Path, module: str, task: Task) -> Iterator[Client]:
    with (
        log.open("w") as log_file,
        subprocess.Popen(
            [python, "-m", f"bench.server.{module}"],
            cwd=_ROOT,
            env={**os.environ, "AIRFLOW_HOME": str(log.parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_file,
            text=True,
        ) as process,
    ):
        try:
            client = Client(process, log)
            client.tell({**task._asdict(), "keys": KEYS, "values": VALUES})
            yield client
        finally:
            process.terminate()
