"""Connection pool: idle connections, each with its cursor, ready for the next command.

SQLAlchemy's pool takes longer for a checkout than SQLite takes for a `get`; this one needs two
queue operations, and keeps the cursor, which costs psycopg as much again.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from holdfast.errors import StoreUnavailable

MAX_CONNECTIONS = 32
"""Default maximum number of connections of one process."""
LONGEST_WAIT = 60.0
LONGEST_IDLE = 60.0
"""Seconds after which an unused connection is closed, when another one is taken."""
LONGEST_CANCELLATION = 10.0


class Link(NamedTuple):
    """A connection and its cursor."""

    connection: Any
    cursor: Any


class _Idle:
    """Idle links, the most recently used on top; thread-safe."""

    def __init__(self) -> None:
        self._links: deque[tuple[float, Link]] = deque()

    def push(self, link: Link) -> None:
        self._links.append((time.monotonic(), link))

    def pop_stale(self) -> Link | None:
        """Return a link that has been idle for too long, if there is one."""
        try:
            if self._links[0][0] < time.monotonic() - LONGEST_IDLE:
                return self._links.popleft()[1]
        except IndexError:  # other threads may have taken them meanwhile
            pass
        return None

    def pop(self) -> Link | None:
        try:
            return self._links.pop()[1]
        except IndexError:
            return None

    def __iter__(self) -> Iterator[Link]:
        return (link for _, link in self._links)


class Pool:
    """Hands out the most recently used connection, or a new one, up to a limit."""

    def __init__(self, connect: Callable[[], Any], most: int) -> None:
        self._connect = connect
        self._most = most
        self._start()

    def _start(self) -> None:
        self._idle = _Idle()
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(self._most):
            self._permits.put(None)

    def take(self, timeout: float | None = None) -> Link:
        """Return a connection for one command; wait if all are in use. Raise StoreUnavailable if
        that takes too long."""
        longest = LONGEST_WAIT if timeout is None else min(timeout, LONGEST_WAIT)
        if (stale := self._idle.pop_stale()) is not None:
            stale.connection.invalidate()
        try:
            self._permits.get(timeout=longest)
        except Empty:
            raise StoreUnavailable(
                f"all {self._most} connections of this process have been in use for {longest:g} s",
                hint="use fewer threads, or raise [database] max_connections",
            ) from None
        if (link := self._idle.pop()) is not None:
            return link
        try:
            connection = self._connect()
            return Link(connection, connection.cursor())
        except BaseException:
            self._permits.put(None)
            raise

    def give(self, link: Link) -> None:
        """Return a connection to the pool."""
        self._idle.push(link)
        self._permits.put(None)

    def discard(self, link: Link) -> None:
        """Close a connection that nobody else should get, whatever its state."""
        try:
            link.connection.invalidate()
        finally:
            self._permits.put(None)

    def close(self) -> None:
        """Close idle connections."""
        while (link := self._idle.pop()) is not None:
            link.connection.invalidate()

    def forget(self) -> None:
        """Start anew in a forked process: these connections are the parent's, and stay open."""
        _LEFT_OPEN.extend(self._idle)
        self._start()


class AsyncPool:
    """Pool for one event loop; it has no tasks of its own that could outlive a command."""

    def __init__(
        self, connect: Callable[[], Awaitable[Any]], most: int, longest_wait: float | None = None
    ) -> None:
        self._connect = connect
        self._longest_wait = longest_wait or LONGEST_WAIT
        self._idle = _Idle()
        self._permits = asyncio.Semaphore(most)

    async def take(self) -> Link:
        """Return a connection for one command; wait if all are in use, or for a new one. Raise
        StoreUnavailable if that takes too long."""
        if (stale := self._idle.pop_stale()) is not None:
            await stale.connection.close()
        try:
            async with asyncio.timeout(self._longest_wait):
                await self._permits.acquire()
                return self._idle.pop() or await self._new()
        except TimeoutError:
            raise StoreUnavailable(
                f"no connection to the database within {self._longest_wait:g} s",
                hint="check that the database answers, or send fewer commands at once",
            ) from None

    async def _new(self) -> Link:
        try:
            connection = await self._connect()
            return Link(connection, connection.cursor())
        except BaseException:
            self._permits.release()
            raise

    def give(self, link: Link) -> None:
        self._idle.push(link)
        self._permits.release()

    async def discard(self, link: Link) -> None:
        try:
            await link.connection.close()
        finally:
            self._permits.release()

    async def close(self) -> None:
        while (link := self._idle.pop()) is not None:
            await link.connection.close()


async def cancel(link: Link) -> None:
    """Cancel the statement that PostgreSQL executes on an event loop's connection."""
    with suppress(Exception):  # a server that does not respond does not react to this either
        await link.connection.cancel_safe(timeout=LONGEST_CANCELLATION)


def cut(link: Link) -> None:
    """Shut down an event loop's connection, so that a task that waits on it notices."""
    with suppress(OSError), socket.socket(fileno=os.dup(link.connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


_LEFT_OPEN: list[Link] = []
