"""Drivers of generators of steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import flow


def steps(ended: list[str]) -> flow.Steps[str, None]:
    try:
        yield "a request"
    finally:
        ended.append("closed")


def test_an_interrupted_request_closes_the_steps_at_once() -> None:
    ended: list[str] = []

    def interrupted(wanted: str) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as kept:
        flow.run(steps(ended), interrupted)

    assert ended == ["closed"]
    assert kept.value.__traceback__ is not None  # whose frames would keep the generator alive


def test_a_cancelled_request_closes_the_steps_at_once() -> None:
    ended: list[str] = []

    async def cancelled() -> None:
        async with asyncio.timeout(0.01):
            await flow.arun(steps(ended), lambda wanted: asyncio.sleep(60))

    with pytest.raises(TimeoutError) as kept:
        asyncio.run(cancelled())

    assert ended == ["closed"]
    assert kept.value.__traceback__ is not None


def test_an_error_of_a_request_is_raised_in_the_steps() -> None:
    def caught() -> Iterator[str]:
        try:
            yield "a request"
        except LookupError:
            yield "another"

    asked: list[str] = []

    def do(wanted: str) -> None:
        asked.append(wanted)
        if wanted == "a request":
            raise LookupError

    flow.run(caught(), do)  # type: ignore[arg-type]

    assert asked == ["a request", "another"]
