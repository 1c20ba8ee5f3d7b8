"""Idle connections, each with its cursor, ready for the next command.

SQLAlchemy's pool takes longer over a checkout than SQLite takes over a `get`; this one is two
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
"""Of one process, unless it is said otherwise."""
LONGEST_WAIT = 60.0
LONGEST_IDLE = 60.0
"""Seconds after which a connection that nobody needed is closed, when another one is taken."""
LONGEST_CANCELLATION = 10.0


class Link(NamedTuple):
    """A connection and its cursor."""

    connection: Any
    cursor: Any


class _Idle:
    """Links that wait, the one that was used last on top; for any number of threads."""

    def __init__(self) -> None:
        self._links: deque[tuple[float, Link]] = deque()

    def push(self, link: Link) -> None:
        self._links.append((time.monotonic(), link))

    def pop_stale(self) -> Link | None:
        """Return a link that has been idle for too long, if there is one."""
        with suppress(IndexError):  # others may take them meanwhile
            if self._links[0][0] < time.monotonic() - LONGEST_IDLE:
                return self._links.popleft()[1]
        return None

    def pop(self) -> Link | None:
        try:
            return self._links.pop()[1]
        except IndexError:
            return None

    def __iter__(self) -> Iterator[Link]:
        return (link for _, link in self._links)


class Pool:
    """Hands out the connection that was used last, or a new one, up to a limit."""

    def __init__(self, connect: Callable[[], Any], most: int) -> None:
        self._connect = connect
        self._most = most
        self._start()

    def _start(self) -> None:
        self._idle = _Idle()
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(self._most):
            self._permits.put(None)

    def take(self) -> Link:
        """A connection for one command; waits where all are in use."""
        if (stale := self._idle.pop_stale()) is not None:
            stale.connection.invalidate()
        try:
            self._permits.get(timeout=LONGEST_WAIT)
        except Empty:
            raise StoreUnavailable(
                f"all {self._most} connections of this process have been in use for "
                f"{LONGEST_WAIT:.0f} s",
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
        """Back, for the next one."""
        self._idle.push(link)
        self._permits.put(None)

    def discard(self, link: Link) -> None:
        """Closed: whatever state it is in, nobody else should get it."""
        try:
            link.connection.invalidate()
        finally:
            self._permits.put(None)

    def close(self) -> None:
        """Close what is idle."""
        while (link := self._idle.pop()) is not None:
            link.connection.invalidate()

    def forget(self) -> None:
        """Start anew in a forked process: these connections are the parent's, and stay open."""
        _LEFT_OPEN.extend(self._idle)
        self._start()


class AsyncPool:
    """The same for one event loop; it has no tasks of its own that could outlive a command."""

    def __init__(
        self, connect: Callable[[], Awaitable[Any]], most: int, longest_wait: float | None = None
    ) -> None:
        self._connect = connect
        self._longest_wait = longest_wait or LONGEST_WAIT
        self._idle = _Idle()
        self._permits = asyncio.Semaphore(most)

    async def take(self) -> Link:
        """A connection for one command; waits where all are in use, or a new one is made."""
        if (stale := self._idle.pop_stale()) is not None:
            await stale.connection.close()
        try:
            async with asyncio.timeout(self._longest_wait):
                await self._permits.acquire()
                return self._idle.pop() or await self._new()
        except TimeoutError:
            raise StoreUnavailable(
                f"there was no connection to the database within {self._longest_wait:g} s",
                hint="check that it answers; or too many commands come at once",
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
    """Have PostgreSQL stop what it does on an event loop's connection."""
    with suppress(Exception):  # one that is silent does not hear this either
        await link.connection.cancel_safe(timeout=LONGEST_CANCELLATION)


def cut(link: Link) -> None:
    """End an event loop's connection so that whoever waits for an answer on it sees that."""
    with suppress(OSError), socket.socket(fileno=os.dup(link.connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


_LEFT_OPEN: list[Link] = []
