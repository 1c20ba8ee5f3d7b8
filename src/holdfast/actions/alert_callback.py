"""The process that calls the callback of alerts. Its argument is the dotted name of the function,
its standard input the alert as JSON."""

from __future__ import annotations

import asyncio
import inspect
import signal
import sys
from importlib import import_module
from typing import Final

import msgspec

LIMIT: Final = 90
"""Seconds after which it ends, longer than its parent waits: the parent may have died."""


def main() -> None:
    signal.alarm(LIMIT)
    module, _, name = sys.argv[1].rpartition(".")
    answer = getattr(import_module(module), name)(msgspec.json.decode(sys.stdin.buffer.read()))
    if inspect.isawaitable(answer):
        asyncio.run(_result(answer))


async def _result(answer: object) -> None:
    assert inspect.isawaitable(answer)
    await answer


if __name__ == "__main__":
    main()
