"""SQL store: its sync and async entry points, and retries while the database is down."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from threading import RLock
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

from holdfast import flow
from holdfast.commands import Command
from holdfast.errors import HoldfastError
from holdfast.flow import Call
from holdfast.store import Store
from holdfast.stores.sql.compiled import CompiledStatements
from holdfast.stores.sql.dialects import connect, make_engine, parse_url
from holdfast.stores.sql.failures import is_lost, shown
from holdfast.stores.sql.operations import OPERATIONS, operation_for
from holdfast.stores.sql.operations.steps import (
    BEGIN,
    ROLLBACK,
    SNAPSHOT,
    Context,
    Operation,
    Query,
    Steps,
)
from holdfast.stores.sql.pool import MAX_CONNECTIONS, AsyncPool, Link, Pool, cancel, cut
from holdfast.stores.sql.retries import Outage, Progress, RetryPolicy, Timeout, unanswered
from holdfast.stores.sql.rows import micros
from holdfast.stores.sql.schema import ensure

A = TypeVar("A")

NO_TIMEOUT = Timeout(None)


class SqlStore(Store):
    """Task and asset state in SQLite, PostgreSQL, or MySQL/MariaDB.

    While the database is down, commands are retried for up to `retry_window`, where it is safe to
    send them again. On the async entry point, a command without a response for longer than
    `answer_timeout` is given up, and its statement cancelled. `clock` replaces the database's
    clock; for SQLite that is this machine's.
    """

    def __init__(
        self,
        url: str,
        *,
        history_limit: int = 100,
        retry_window: timedelta = timedelta(0),
        answer_timeout: timedelta | None = None,
        max_connections: int = MAX_CONNECTIONS,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._options: dict[str, Any] = {
            "url": url,
            "history_limit": history_limit,
            "retry_window": retry_window,
            "answer_timeout": answer_timeout,
            "max_connections": max_connections,
            "clock": clock,
        }
        self._url, self._dialect = parse_url(url)
        self._answer_timeout = answer_timeout.total_seconds() if answer_timeout else None
        self._engine = make_engine(self._url, self._dialect, self._answer_timeout)
        self._context = Context(self._dialect, history_limit)
        self._retry_window = retry_window
        self._outage = Outage()
        self._now = _clock(clock, self._dialect.embedded)
        self._turn = RLock()
        self._compiled = CompiledStatements(self._engine.dialect)
        self._max_connections = max_connections
        self._pool = Pool(partial(connect, self._engine), max_connections)
        self._async_pools: WeakKeyDictionary[Any, AsyncPool] = WeakKeyDictionary()
        self._cancellations: set[asyncio.Task[None]] = set()
        self._open(url)
        _OPEN.add(self)

    def _open(self, url: str) -> None:
        """Wait for the database for up to `retry_window`, and check its schema."""
        policy = RetryPolicy(self._retry_window, self._url, self._outage, repeatable=True)
        while True:
            try:
                ensure(self._engine, url)
                return self._outage.end()
            except HoldfastError:
                raise
            except Exception as error:
                pause = policy.after(error, Progress())
            time.sleep(pause)

    def __repr__(self) -> str:
        return f"<SqlStore {shown(self._url)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(SqlStore, **self._options), ()

    def supports(self, command: type[Command[Any]]) -> bool:
        return command in OPERATIONS

    def execute(self, command: Command[A]) -> A:
        return self.run(operation_for(command), command)

    async def aexecute(self, command: Command[A]) -> A:
        return await self.arun(operation_for(command), command)

    def run(self, operation: Operation, command: Command[A], timeout: Timeout = NO_TIMEOUT) -> A:
        """Execute a command by this operation."""
        policy = None
        while True:
            progress = Progress()
            try:
                answer = self._once(operation(self._context, command), progress, timeout)
            except HoldfastError:
                raise
            except Exception as error:
                timeout.check()
                policy = policy or RetryPolicy(
                    self._retry_window, self._url, self._outage, command.repeatable
                )
                pause = policy.after(error, progress)
            else:
                if self._outage.since is not None:
                    self._outage.end()
                return cast(A, answer)
            time.sleep(pause)

    async def arun(self, operation: Operation, command: Command[A]) -> A:
        """Async variant of `run`."""
        if not self._dialect.native_async:
            return await self._in_thread(operation, command)
        policy = None
        while True:
            progress = Progress()
            try:
                answer = await self._aonce(operation, command, progress)
            except HoldfastError:
                raise
            except Exception as error:
                policy = policy or RetryPolicy(
                    *(self._retry_window, self._url, self._outage, command.repeatable),
                    self._answer_timeout,
                )
                pause = policy.after(error, progress)
            else:
                if self._outage.since is not None:
                    self._outage.end()
                return answer
            await asyncio.sleep(pause)

    async def _in_thread(self, operation: Operation, command: Command[A]) -> A:
        timeout = Timeout(None if command.lengthy else self._answer_timeout)
        try:
            async with asyncio.timeout(timeout.seconds):
                return await asyncio.to_thread(self.run, operation, command, timeout)
        except TimeoutError:
            timeout.give_up()
            raise unanswered(timeout.seconds) from None

    def close(self) -> None:
        self._pool.close()

    async def aclose(self) -> None:
        pool = self._async_pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()
        self.close()

    def _once(self, steps: Steps[A], progress: Progress, timeout: Timeout) -> A:
        link = self._pool.take(timeout.seconds)
        try:
            if timeout.seconds is None:
                answer = self._drive(steps, link.cursor, progress, timeout)
            else:
                with timeout.over(partial(self._dialect.interrupt, link.connection)):
                    answer = self._drive(steps, link.cursor, progress, timeout)
        except HoldfastError:
            self._pool.give(link)
            raise
        except BaseException as error:
            if progress.begun and self._dialect.embedded:
                # The traceback keeps the cursor alive, and with it the locks of the connection.
                with suppress(Exception):
                    link.cursor.execute("ROLLBACK")
            self._pool.discard(link)
            if is_lost(error):
                self._pool.close()  # the idle ones were lost with it
            raise
        self._pool.give(link)
        return answer

    def _drive(self, steps: Steps[A], cursor: Any, progress: Progress, timeout: Timeout) -> A:
        has_turn = False

        def do(step: Any) -> Any:
            nonlocal has_turn
            if type(step) is tuple:
                return self._run(cursor, step)
            if isinstance(step, Call):
                return step.sync()
            if self._dialect.embedded and not has_turn and step == self._dialect.begin:
                # Writers of this process take turns, because SQLite would have them poll with
                # growing pauses.
                has_turn = self._turn.acquire(timeout=timeout.seconds or -1)
                if not has_turn:
                    raise unanswered(timeout.seconds)
                timeout.check()
            cursor.execute(step)
            return None

        try:
            return flow.run(self._transaction(steps, progress, timeout), do)
        finally:
            if has_turn:
                self._turn.release()

    def _transaction(
        self, steps: Steps[A], progress: Progress, timeout: Timeout = NO_TIMEOUT
    ) -> flow.Steps[str | Query | Call, A]:
        """Yield the queries and calls of an operation, and the SQL text of its transaction."""
        dialect = self._dialect
        try:
            query = next(steps)
            while True:
                timeout.check()
                answer = None
                if query is BEGIN or query is SNAPSHOT:
                    if not progress.begun:
                        yield from (dialect.begin,) if query is BEGIN else dialect.snapshot
                        progress.begun = True
                elif query is ROLLBACK:
                    yield "ROLLBACK"
                    progress.begun = False
                elif isinstance(query, Call):
                    try:
                        answer = yield query
                    except Exception as error:
                        query = steps.throw(error)
                        continue
                else:
                    answer = yield query
                query = steps.send(answer)
        except StopIteration as end:
            if progress.begun:
                progress.committing = True
                yield "COMMIT"
            return end.value  # type: ignore[no-any-return]
        except HoldfastError:
            if progress.begun:
                yield "ROLLBACK"
            raise
        finally:
            steps.close()

    def _run(self, cursor: Any, query: Query) -> Any:
        text, params, many, returns_rows = self._compiled.prepare(query, self._now())
        if isinstance(params, str):
            with cursor.copy(text) as copy:
                copy.write(params)
        elif many:
            cursor.executemany(text, params)
        else:
            cursor.execute(text, params)
        return cursor.fetchall() if returns_rows else cursor.rowcount

    async def _aonce(self, operation: Operation, command: Command[A], progress: Progress) -> A:
        pool = self._async_pool()
        link = await pool.take()
        try:
            with self._answering(link, progress, command.lengthy):
                steps = operation(self._context, command)
                answer = cast(A, await self._adrive(steps, link.cursor, progress))
        except HoldfastError:
            await _give_back(pool, link, progress)
            raise
        except BaseException as error:
            await pool.discard(link)
            if is_lost(error) and not progress.given_up:
                await pool.close()
            raise
        await _give_back(pool, link, progress)
        return answer

    @contextmanager
    def _answering(self, link: Link, progress: Progress, lengthy: bool) -> Iterator[None]:
        """Give up a command that exceeds the timeout, unless it is `lengthy`. This does not rely on
        cancelling the task, for which psycopg would wait until the database agrees."""
        if self._answer_timeout is None or lengthy:
            yield
            return

        def give_up() -> None:
            progress.given_up = True
            # The database continues a statement, and keeps its locks, when the client is gone.
            cancellation = loop.create_task(cancel(link))
            self._cancellations.add(cancellation)
            cancellation.add_done_callback(self._cancellations.discard)
            cut(link)

        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._answer_timeout, give_up)
        try:
            yield
        finally:
            timer.cancel()

    async def _adrive(self, steps: Steps[A], cursor: Any, progress: Progress) -> A:
        async def do(step: Any) -> Any:
            if type(step) is tuple:
                return await self._arun(cursor, step)
            if isinstance(step, Call):
                return await step.asynchronous()
            await cursor.execute(step)
            return None

        return await flow.arun(self._transaction(steps, progress), do)

    async def _arun(self, cursor: Any, query: Query) -> Any:
        text, params, many, returns_rows = self._compiled.prepare(query, self._now())
        if isinstance(params, str):
            async with cursor.copy(text) as copy:
                await copy.write(params)
        elif many:
            await cursor.executemany(text, params)
        else:
            await cursor.execute(text, params)
        return await cursor.fetchall() if returns_rows else cursor.rowcount

    def _async_pool(self) -> AsyncPool:
        """Return the pool of the running event loop: connections cannot move between loops."""
        loop = asyncio.get_running_loop()
        pool = self._async_pools.get(loop)
        if pool is None:
            connect = partial(self._dialect.connect_async, self._engine)
            pool = self._async_pools[loop] = AsyncPool(
                connect, self._max_connections, self._answer_timeout
            )
        return pool


async def _give_back(pool: AsyncPool, link: Link, progress: Progress) -> None:
    """Return a connection to the pool, unless the timeout has cut it just before the answer."""
    if progress.given_up:
        await pool.discard(link)
    else:
        pool.give(link)


def _clock(clock: Callable[[], datetime] | None, embedded: bool) -> Callable[[], int | None]:
    """Return a function for the value of `now`; None lets the database use its own clock."""
    if clock is not None:
        return lambda: micros(clock())
    if embedded:
        return lambda: time.time_ns() // 1000
    return lambda: None


_OPEN: WeakSet[SqlStore] = WeakSet()


def _close_embedded() -> None:
    """Close SQLite's connections before a fork: its locks belong to the process, so a child that
    inherits a connection would assume that it holds them, and could lose its writes."""
    for store in _OPEN:
        if store._dialect.embedded:
            store._pool.close()


def _leave_connections_to_parent() -> None:
    for store in _OPEN:
        store._pool.forget()
        store._turn = RLock()
        store._async_pools.clear()


os.register_at_fork(before=_close_embedded, after_in_child=_leave_connections_to_parent)
