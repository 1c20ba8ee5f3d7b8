"""What a client may ask of the server: how large, how slow, how often, how many at once."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from starlette.types import Receive, Scope

from holdfast.errors import (
    HoldfastError,
    RequestTooLarge,
    RequestTooSlow,
    StoreUnavailable,
)
from holdfast.server.problem import TooOften
from holdfast.server.tokens import Bearer

A = TypeVar("A")

REFUSAL = "holdfast.refusal"
"""Where the protocol says in a request's scope that the rest of it will not come, and why."""
MOST_UNDER_WAY = 1000
MOST_CONNECTIONS = 10_000
MOST_BEARERS = 10_000
BURST = 1.0
"""Seconds' worth of requests that may come at once."""


LARGE_BODY = 2**16
"""Bytes from which on a body is read in a thread: to check all of it may take seconds."""


class ClientGone(Exception):
    """The client has left before its request was complete."""


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body; RequestTooLarge where it is over the limit, by its own word or in fact."""
    parts: list[bytes] = []
    size = 0
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > limit:
            raise too_large(limit)
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise too_large(limit)
        if not message.get("more_body", False):
            return b"".join((*parts, part)) if parts else part
        if part:
            parts.append(part)
        if REFUSAL in scope:
            raise scope[REFUSAL]


async def read_aside(body: bytes, read: Callable[..., A], *args: Any) -> A:
    """Make something of a body, without holding up the event loop where it is large."""
    if len(body) < LARGE_BODY:
        return read(*args)
    return await asyncio.to_thread(read, *args)


def too_large(limit: int) -> HoldfastError:
    if not limit:
        return RequestTooLarge("no body is taken here", hint="/openapi.json tells where one is")
    return RequestTooLarge(
        f"the body of the request is over {limit:,} bytes",
        hint="store large values elsewhere and their path here, or raise [api] max_body_bytes",
    )


def too_slow(limit: timedelta) -> HoldfastError:
    return RequestTooSlow(
        f"the request did not come within {limit.total_seconds():g} s",
        hint="send it again; [api] request_timeout says how long it may take",
    )


class Overloaded(StoreUnavailable):
    """The server has enough to do."""


def overloaded() -> HoldfastError:
    return Overloaded(
        "the server has too many requests under way", hint="wait a moment, and send it again"
    )


class RateLimit:
    """How often each bearer of a token may ask: so many requests a second, 0 for any number.

    It remembers, for each, when the requests so far would have ended at the permitted pace.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._ends: OrderedDict[Bearer, float] = OrderedDict()

    def count(self, bearer: Bearer) -> None:
        """One request more; TooOften where it comes too early."""
        if not self._rate:
            return
        now = time.monotonic()
        before = self._ends.pop(bearer, 0.0)
        end = max(now, before) + 1 / self._rate
        early = end - now - max(BURST, 1 / self._rate)
        # Taken out and put in, so that whoever asked last is forgotten last.
        self._ends[bearer] = before if early > 0 else end
        if early > 0:
            raise TooOften(
                f"more than {self._rate:,} requests a second with one token",
                hint=f"send the next one in {early:.3f} s; [api] rate_limit is the limit",
                wait=early,
            )
        if len(self._ends) > MOST_BEARERS:
            self._ends.popitem(last=False)
