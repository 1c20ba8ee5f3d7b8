"""Generator-based steps that run synchronously or asynchronously: a generator yields requests and
is sent their results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

A = TypeVar("A")
W = TypeVar("W")
Steps: TypeAlias = Generator[W, Any, A]
"""A generator that yields requests of type `W` and returns an `A`."""


class Call(NamedTuple):
    """A call in a sync and an async variant."""

    sync: Callable[[], Any]
    asynchronous: Callable[[], Awaitable[Any]]


def in_thread(work: Callable[[], Any]) -> Call:
    """Return a call whose async variant runs the sync one in a thread."""
    return Call(work, lambda: asyncio.to_thread(work))


def run(steps: Steps[W, A], do: Callable[[W], Any]) -> A:
    """Run the steps to their end. An error of a request is raised at the generator's `yield`."""
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
    finally:
        steps.close()  # an interruption of `do` must not leave the generator's `finally` for later


async def arun(steps: Steps[W, A], do: Callable[[W], Awaitable[Any]]) -> A:
    """Async variant of `run`."""
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
    finally:
        steps.close()
