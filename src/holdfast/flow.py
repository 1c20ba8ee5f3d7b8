"""Work that is written once and done in either colour: a generator yields what it wants done, and
is sent what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

A = TypeVar("A")
W = TypeVar("W")
Steps: TypeAlias = Generator[W, Any, A]
"""Work that yields what it wants done, of type `W`, and returns an `A`."""


class Call(NamedTuple):
    """A call in its two colours."""

    sync: Callable[[], Any]
    asynchronous: Callable[[], Awaitable[Any]]


def in_thread(work: Callable[[], Any]) -> Call:
    """What there is in one colour only."""
    return Call(work, lambda: asyncio.to_thread(work))


def run(steps: Steps[W, A], do: Callable[[W], Any]) -> A:
    """Do it here and now. What goes wrong is raised where it was wanted."""
    try:
        wanted = next(steps)
        while True:
            try:
                answer = do(wanted)
            except Exception as error:
                wanted = steps.throw(error)
            else:
                wanted = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def arun(steps: Steps[W, A], do: Callable[[W], Awaitable[Any]]) -> A:
    """The same without blocking the event loop."""
    try:
        wanted = next(steps)
        while True:
            try:
                answer = await do(wanted)
            except Exception as error:
                wanted = steps.throw(error)
            else:
                wanted = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
