"""Idle connections, each with its cursor, ready for the next command.

SQLAlchemy's pool takes longer over a checkout than SQLite takes over a `get`; this one is two
queue operations, and keeps the cursor, which costs psycopg as much again.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from holdfast.errors import StoreUnavailable

MOST = 64
MOST_ASYNC = 16
LONGEST_WAIT = 60.0
LONGEST_CANCELLATION = 10.0


class Link(NamedTuple):
    """A connection and its cursor."""

    connection: Any
    cursor: Any


class Pool:
    """Hands out the connection that was used last, or a new one, up to a limit."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._start()

    def _start(self) -> None:
        self._idle: list[Link] = []
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(MOST):
            self._permits.put(None)

    def take(self) -> Link:
        """A connection for one command; waits where all are in use."""
        try:
            self._permits.get(timeout=LONGEST_WAIT)
        except Empty:
            raise StoreUnavailable(
                f"all {MOST} connections of this process have been in use for {LONGEST_WAIT:.0f} s",
                hint="use fewer threads, or several processes",
            ) from None
        try:
            return self._idle.pop()
        except IndexError:
            pass
        try:
            connection = self._connect()
            return Link(connection, connection.cursor())
        except BaseException:
            self._permits.put(None)
            raise

    def give(self, link: Link) -> None:
        """Back, for the next one."""
        self._idle.append(link)
        self._permits.put(None)

    def discard(self, link: Link) -> None:
        """Closed: whatever state it is in, nobody else should get it."""
        try:
            link.connection.invalidate()
        finally:
            self._permits.put(None)

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            self._idle.pop().connection.invalidate()

    def forget(self) -> None:
        """Start anew in a forked process: these connections are the parent's, and stay open."""
        _LEFT_OPEN.extend(self._idle)
        self._start()


class AsyncPool:
    """The same for one event loop; it has no tasks of its own that could outlive a command."""

    def __init__(
        self, connect: Callable[[], Awaitable[Any]], longest_wait: float | None = None
    ) -> None:
        self._connect = connect
        self._longest_wait = longest_wait or LONGEST_WAIT
        self._idle: list[Link] = []
        self._permits = asyncio.Semaphore(MOST_ASYNC)

    async def take(self) -> Link:
        """A connection for one command; waits where all are in use, or a new one is made."""
        try:
            async with asyncio.timeout(self._longest_wait):
                await self._permits.acquire()
                return self._idle.pop() if self._idle else await self._new()
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
        self._idle.append(link)
        self._permits.release()

    async def discard(self, link: Link) -> None:
        try:
            await link.connection.close()
        finally:
            self._permits.release()

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().connection.close()


async def cancel(link: Link) -> None:
    """Have PostgreSQL stop what it does on an event loop's connection."""
    with suppress(Exception):  # one that is silent does not hear this either
        await link.connection.cancel_safe(timeout=LONGEST_CANCELLATION)


def cut(link: Link) -> None:
    """End an event loop's connection so that whoever waits for an answer on it sees that."""
    with suppress(OSError), socket.socket(fileno=os.dup(link.connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


_LEFT_OPEN: list[Link] = []
