"""Airflow's client as tests hold it: its calls are made by a process with Airflow in it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

PYTHON = Path(__file__).parents[2] / ".venv-airflow/bin/python"


class Raised(Exception):
    """What the client raised: its class, and the status and detail of the answer."""

    def __init__(self, raised: str, status: int | None, detail: Any) -> None:
        super().__init__(raised, status, detail)
        self.status = status
        self.detail = detail


class Airflow:
    """The process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def client(self, url: str, token: str) -> Client:
        """What a worker makes that was told of that server."""
        number = self.ask("open", base_url=f"{url}/execution/", token=token)["number"]
        return Client(self, number)

    def ask(self, what: str, **details: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": what, **details}), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


class Client:
    """`airflow.sdk.api.client.Client`. Answers are dicts with their class under `type`."""

    def __init__(self, airflow: Airflow, number: int) -> None:
        self._airflow = airflow
        self._number = number
        self.task_state_store = Operations(partial(self._call, "task_state_store"))
        self.asset_state_store = Operations(partial(self._call, "asset_state_store"))

    @property
    def token(self) -> str:
        """The one that its next request will have."""
        token: str = self._airflow.ask("token", number=self._number)["token"]
        return token

    def request(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Any request under /execution/, with all that the client adds to it."""
        return self._answer("request", (method, path), options)

    def _call(self, group: str, operation: str, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return self._answer(f"{group}.{operation}", args, kwargs)

    def _answer(
        self, operation: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        answer = self._airflow.ask(
            "call", number=self._number, operation=operation, args=args, kwargs=kwargs
        )
        if "raised" in answer:
            raise Raised(**answer)
        return answer


class Operations:
    """Those of one kind, by their names in the client."""

    def __init__(self, call: Callable[..., dict[str, Any]]) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        return partial(self._call, name)


@contextmanager
def running_airflow(home: Path) -> Iterator[Airflow]:
    if not PYTHON.exists():
        pytest.fail("Airflow is not installed; hint: make test-airflow")
    with subprocess.Popen(
        [PYTHON, Path(__file__).with_name("client_side.py")],
        # A server that fails is to be seen here, and not to be asked again.
        env={
            **os.environ,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "1",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Airflow(process)
        finally:
            process.terminate()
