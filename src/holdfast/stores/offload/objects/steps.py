"""What the work on objects is made of."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias, TypeVar

from holdfast import flow
from holdfast.flow import Call

A = TypeVar("A")


Steps: TypeAlias = flow.Steps[Call, A]


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
    return flow.run(steps, lambda call: call.sync())


async def arun(steps: Steps[A]) -> A:
    """Do it without blocking the loop."""
    return await flow.arun(steps, lambda call: call.asynchronous())
