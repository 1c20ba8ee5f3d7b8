"""What the work on objects is made of: generators that yield calls and are sent their answers, so
that it is written once for both colours."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

A = TypeVar("A")


class Call(NamedTuple):
    """One call in its two colours."""

    sync: Callable[[], Any]
    asynchronous: Callable[[], Any]


Steps: TypeAlias = Generator[Call, Any, A]


def call(store: Any, method: str, *args: Any, **options: Any) -> Call:
    """A method of a store, whose async twin has its own name."""
    return Call(
        partial(getattr(store, method), *args, **options),
        partial(getattr(store, f"{method}_async"), *args, **options),
    )


def following(stream: Any) -> Call:
    """The next chunk of a stream, which can be read in either colour, or None at its end."""
    return Call(lambda: next(stream, None), lambda: anext(stream, None))


def run(steps: Steps[A]) -> A:
    """Do it here and now."""
    try:
        wanted = next(steps)
        while True:
            try:
                answer = wanted.sync()
            except Exception as error:
                wanted = steps.throw(error)
            else:
                wanted = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def arun(steps: Steps[A]) -> A:
    """Do it without blocking the loop."""
    try:
        wanted = next(steps)
        while True:
            try:
                answer = await wanted.asynchronous()
            except Exception as error:
                wanted = steps.throw(error)
            else:
                wanted = steps.send(answer)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
