"""Connection pool: its limit, and the closing of idle connections."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.stores.sql import SqlStore, pool
from holdfast.stores.sql.pool import AsyncPool, Link, Pool


class Connection:
    def __init__(self) -> None:
        self.is_open = True

    def cursor(self) -> object:
        return object()

    def invalidate(self) -> None:
        self.is_open = False

    async def close(self) -> None:
        self.is_open = False


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [1000.0]
    monkeypatch.setattr(pool.time, "monotonic", lambda: now[0])

    def forward(seconds: float) -> None:
        now[0] += seconds

    return forward


def taken(one: Pool, count: int) -> list[Link]:
    return [one.take() for _ in range(count)]


def test_unused_connections_are_closed(pass_time: Callable[[float], None]) -> None:
    one = Pool(Connection, 4)
    links = taken(one, 3)
    for link in links:
        one.give(link)

    pass_time(pool.LONGEST_IDLE + 1)
    for _ in range(4):  # one at a time, and never the one that is in use
        one.give(one.take())

    assert [link.connection.is_open for link in links] == [False, False, True]


def test_a_command_waits_for_a_connection_no_longer_than_its_timeout() -> None:
    one = Pool(Connection, 1)
    one.take()

    with pytest.raises(StoreUnavailable, match="all 1 connections of this process"):
        one.take(0.01)


def test_a_reused_connection_stays_open(pass_time: Callable[[float], None]) -> None:
    one = Pool(Connection, 4)
    links = taken(one, 2)
    for link in links:
        one.give(link)

    for _ in range(5):
        pass_time(pool.LONGEST_IDLE / 2)
        for link in taken(one, 2):
            one.give(link)

    assert all(link.connection.is_open for link in links)


async def test_an_event_loop_closes_unused_connections(
    pass_time: Callable[[float], None],
) -> None:
    async def connect() -> Connection:
        return Connection()

    one = AsyncPool(connect, 4)
    links = [await one.take() for _ in range(2)]
    for link in links:
        one.give(link)

    pass_time(pool.LONGEST_IDLE + 1)
    one.give(await one.take())

    assert [link.connection.is_open for link in links] == [False, True]


async def test_the_number_of_connections_respects_the_limit() -> None:
    async def connect() -> Connection:
        return Connection()

    one = AsyncPool(connect, 1, longest_wait=0.05)
    await one.take()

    with pytest.raises(pool.StoreUnavailable, match="no connection to the database"):
        await one.take()


def test_a_pickled_store_has_its_limit(tmp_path: Any) -> None:
    with SqlStore(f"sqlite:///{tmp_path}/store.db", max_connections=3) as store:
        other = pickle.loads(pickle.dumps(store))

        assert other._pool._most == 3
        other.close()


def test_threads_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "LONGEST_WAIT", 0.05)
    one = Pool(Connection, 2)
    taken(one, 2)

    with pytest.raises(pool.StoreUnavailable, match="all 2 connections") as refused:
        one.take()

    assert "max_connections" in refused.value.hint
