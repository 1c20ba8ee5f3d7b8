"""Airflow's object storage backend, run by the Python of Airflow's own environment.

Reads one JSON request a line, and answers each with the seconds that it took.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

from airflow.providers.common.io.state_store.backend import StateStoreObjectStorageBackend
from airflow.sdk.state import TaskScope

SCOPE = TaskScope("orders", "scheduled__2026-01-01", "load")


class Contender:
    def __init__(self) -> None:
        self._backend = StateStoreObjectStorageBackend()

    async def write(self, number: int, value: str) -> None:
        await self._backend.aset(SCOPE, f"key_{number}", json.dumps(value))

    async def read(self, number: int, value: str) -> None:
        text = await self._backend.aget(SCOPE, f"key_{number}")
        assert text is not None
        assert json.loads(text) == value


async def all_of(
    operation: Callable[[int, str], Awaitable[None]], first: int, values: list[str], at_once: int
) -> float:
    gate = asyncio.Semaphore(at_once)

    async def one(number: int, value: str) -> None:
        async with gate:
            await operation(number, value)

    start = time.perf_counter()
    await asyncio.gather(*(one(first + index, value) for index, value in enumerate(values)))
    return time.perf_counter() - start


def main() -> None:
    # What Airflow prints must not get between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    contender = Contender()
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            asked = json.loads(line)
            values = [f"{number:06}".ljust(asked["size"], "x") for number in asked["numbers"]]
            operation = getattr(contender, asked["do"])
            print(
                runner.run(all_of(operation, asked["numbers"][0], values, asked["at_once"])),
                file=answers,
                flush=True,
            )


if __name__ == "__main__":
    main()
