"""Limits on clients: size, duration, rate and number of requests."""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

from starlette.types import Receive, Scope

from holdfast.errors import (
    HoldfastError,
    RequestTooLarge,
    RequestTooSlow,
    StoreUnavailable,
)
from holdfast.server.http.error_responses import TooOften
from holdfast.server.tokens import Bearer

A = TypeVar("A")

REFUSAL = "holdfast.refusal"
"""The key of a request's scope that holds the error because of which reading has stopped."""
MOST_UNDER_WAY = 1000
MOST_BODY_BYTES = 256 * 2**20
"""Bytes of large bodies that a process holds at once, or [api] max_body_bytes if that is larger."""
MOST_CONNECTIONS = 10_000
RESERVED_FILES = 256
"""Open files that are reserved for other uses than connections: databases, logs, libraries."""
LONGEST_HEAD = 10.0
"""Seconds that the head of a request may take, where [api] request_timeout is longer."""
SILENCE = 10.0
"""Seconds between two warnings that a limit is reached."""
MOST_BEARERS = 10_000
BURST = 1.0
"""Seconds' worth of requests that may come in a burst."""


LARGE_BODY = 2**16
"""Bytes from which on a body is decoded in a thread: checking all of it may take seconds."""


log = logging.getLogger("holdfast.server")


class ClientGone(Exception):
    """The client has disconnected before its request was complete."""


async def read_body(scope: Scope, receive: Receive, limit: int, bodies: Bodies) -> bytes:
    """Return the whole body. Raise RequestTooLarge if its declared or actual size is over the
    limit."""
    parts: list[bytes] = []
    size = 0
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > limit:
            raise too_large(limit)
        if name == b"transfer-encoding" and not limit:
            raise too_large(limit)
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise too_large(limit)
        bodies.hold(scope, size)
        if not message.get("more_body", False):
            return b"".join((*parts, part)) if parts else part
        if part:
            parts.append(part)
        if REFUSAL in scope:
            raise scope[REFUSAL]


async def read_aside(body: bytes, read: Callable[..., A], *args: Any) -> A:
    """Decode a body, without blocking the event loop where it is large."""
    if len(body) < LARGE_BODY:
        return read(*args)
    return await asyncio.to_thread(read, *args)


def too_large(limit: int) -> HoldfastError:
    if not limit:
        return RequestTooLarge(
            "the server has no such path, or it takes no body",
            hint="check the URL; /openapi.json lists the paths",
        )
    return RequestTooLarge(
        f"the request body is over {limit:,} bytes",
        hint="store large values elsewhere and their path here, or raise [api] max_body_bytes",
    )


def too_slow(what: str, seconds: float) -> HoldfastError:
    return RequestTooSlow(
        f"{what} did not arrive within {seconds:g} s",
        hint=f"send it again; the limit is [api] request_timeout, and {LONGEST_HEAD:g} s at most "
        "for the head of a request",
    )


class Overloaded(StoreUnavailable):
    """The server has too much to do."""


def overloaded() -> HoldfastError:
    return Overloaded(
        "the server has too many requests in progress",
        hint="wait a moment, and send the request again",
    )


class LimitWarning:
    """Logs a warning that a limit is reached, at most once per `SILENCE`."""

    def __init__(self, message: str) -> None:
        self._message = message
        self._due = 0.0

    def log(self) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + SILENCE
            log.warning("%s", self._message)


class Bodies:
    """The bytes of all bodies that have been received, whole or in part, and are not answered yet.

    The first `LARGE_BODY` bytes of each are not counted, so that large bodies do not block small
    requests.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._warning = LimitWarning(
            f"request bodies in memory have reached {most:,} bytes: more are refused"
        )

    def hold(self, scope: Scope, size: int) -> None:
        """Record how much of a request's body has been received. Raise Overloaded if it is too
        much."""
        held = scope.get(_HELD, 0)
        more = size - LARGE_BODY - held
        if more <= 0:
            return
        if self._bytes + more > self._most:
            self._warning.log()
            raise overloaded()
        self._bytes += more
        scope[_HELD] = held + more

    def release(self, scope: Scope) -> None:
        self._bytes -= scope.pop(_HELD, 0)


_HELD = "holdfast.held"
"""The key of a request's scope that holds how many bytes of its body are counted."""


class Connections:
    """Connections without a request in progress, the longest-waiting first.

    Where there are too many, they are closed for new ones: idle clients do not block active ones.
    """

    def __init__(self) -> None:
        self.most = most_connections()
        self._waiting: dict[Closable, None] = {}
        self._warning = LimitWarning(
            f"{self.most:,} connections are open, the limit of this process: idle ones are closed"
        )

    def wait(self, connection: Closable) -> None:
        """Record that the connection waits for a request from now on."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = None

    def leave(self, connection: Closable) -> None:
        """Record that the connection no longer waits."""
        self._waiting.pop(connection, None)

    def make_way(self, new: Closable) -> bool:
        """Close the connection that has waited longest, for a new one; return False if there is
        none."""
        self._warning.log()
        oldest = next(iter(self._waiting), new)
        if oldest is new:
            return False
        self.leave(oldest)
        oldest.abort()
        return True


class RequestQueue:
    """Queue of the pipelined requests of all connections.

    One starts in each iteration of the event loop, which accepts one connection in each: however
    many were sent at once, a new connection does not wait for them.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def wait(self, begin: Callable[[], None]) -> None:
        """Queue a request; `begin` is called when its turn has come."""
        self._waiting.append(begin)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._take)

    def _take(self) -> None:
        begin = self._waiting[0]
        try:
            begin()
        finally:
            self._waiting.popleft()
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._take)


class Closable(Protocol):
    def abort(self) -> None:
        """Close at once."""


def most_connections() -> int:
    """Return the number of connections for which the limit of open files leaves room."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return min(MOST_CONNECTIONS, max(files - RESERVED_FILES, files // 2))


def raise_file_limit() -> None:
    """Raise the limit of open files of this process to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a system may report a limit that it does not grant
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class RateLimit:
    """Rate limit for each bearer of a token, in requests per second; 0: no limit.

    It stores, for each, when the requests so far would have ended at the permitted rate.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._ends: OrderedDict[Bearer, float] = OrderedDict()

    def count(self, bearer: Bearer) -> None:
        """Count a request. Raise TooOften where it comes too early."""
        if not self._rate:
            return
        now = time.monotonic()
        before = self._ends.pop(bearer, 0.0)
        end = max(now, before) + 1 / self._rate
        early = end - now - max(BURST, 1 / self._rate)
        # Removed and added again, so that the bearer with the latest request is evicted last.
        self._ends[bearer] = before if early > 0 else end
        if early > 0:
            raise TooOften(
                f"more than {self._rate:,} requests per second with one token",
                hint=f"send the next one in {early:.3f} s; [api] rate_limit is the limit",
                wait=early,
            )
        if len(self._ends) > MOST_BEARERS:
            self._ends.popitem(last=False)


class ConcurrencyLimit:
    """Limit on the requests of one kind that each bearer of a token may have in progress."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._under_way: Counter[Bearer] = Counter()

    @contextmanager
    def counting(self, bearer: Bearer) -> Iterator[None]:
        """Count a request during the `with` block. Raise TooOften where it is one too many."""
        if self._under_way[bearer] >= self._most:
            raise TooOften(
                f"more than {self._most} {self._what} at once with one token",
                hint="wait for the response before the next request",
            )
        self._under_way[bearer] += 1
        try:
            yield
        finally:
            self._under_way[bearer] -= 1
            if not self._under_way[bearer]:
                del self._under_way[bearer]
