"""Steps of object storage operations, run sync or async."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias, TypeVar

from holdfast import flow
from holdfast.flow import Call

A = TypeVar("A")


Steps: TypeAlias = flow.Steps[Call, A]


def call(store: Any, method: str, *args: Any, **options: Any) -> Call:
    """Return a call of a store's method, or of its async variant, whose name ends in `_async`."""
    return Call(
        partial(getattr(store, method), *args, **options),
        partial(getattr(store, f"{method}_async"), *args, **options),
    )


def following(stream: Any) -> Call:
    """Return a call for the next chunk of a stream, or None at its end; sync or async."""
    return Call(lambda: next(stream, None), lambda: anext(stream, None))


def run(steps: Steps[A]) -> A:
    """Run the steps synchronously."""
    return flow.run(steps, lambda call: call.sync())


async def arun(steps: Steps[A]) -> A:
    """Run the steps without blocking the event loop."""
    return await flow.arun(steps, lambda call: call.asynchronous())
