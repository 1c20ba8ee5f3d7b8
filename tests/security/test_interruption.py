"""Timeouts and unexpected errors of commands: stopped, without any lock left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import sqlalchemy as sa

from holdfast import commands as c
from holdfast.errors import StoreUnavailable, UnknownAsset
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.stores.sql import SqlStore
from holdfast.stores.sql.operations.fencing import open_scope
from holdfast.stores.sql.operations.steps import Context, Steps

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
SOON, LATE = timedelta(seconds=0.5), timedelta(seconds=30)
HOUR = 3600

Endless: TypeAlias = Callable[[Context, Any], Steps[None]]


def one_endless_statement(context: Context, command: Any) -> Steps[None]:
    yield from open_scope(TASK, ANN)
    match context.dialect.driver:
        case "postgresql+psycopg":
            yield sa.select(sa.func.pg_sleep(HOUR)), {}
        case "mysql+pymysql":
            yield sa.select(sa.func.sleep(HOUR)), {}
        case _:
            number = sa.select(sa.literal_column("1").label("n")).cte(recursive=True)
            numbers = number.union_all(sa.select(number.c.n + 1))
            yield sa.select(sa.func.count()).select_from(numbers), {}


def statements_without_end(context: Context, command: Any) -> Steps[None]:
    yield from open_scope(TASK, ANN)
    one = sa.select(sa.literal_column("1"))
    while True:
        yield one, {}


@pytest.fixture
def store(database_url: str) -> Iterator[SqlStore]:
    with SqlStore(database_url, answer_timeout=SOON) as store:
        store.execute(c.RegisterTask(TASK))
        yield store


@pytest.mark.parametrize("endless", [one_endless_statement, statements_without_end])
async def test_a_command_that_times_out_releases_its_locks(
    store: SqlStore, database_url: str, endless: Endless
) -> None:
    with pytest.raises(StoreUnavailable, match="within 0.5 s, and it was cancelled"):
        await store.arun(endless, c.Now())

    with SqlStore(database_url, answer_timeout=LATE) as other:
        assert await other.aexecute(c.Set(TASK, "k", "1", ANN)) == 1
        await other.aclose()
    await store.aclose()


def a_mistake(context: Context, command: Any) -> Steps[None]:
    yield from open_scope(TASK, ANN)
    yield sa.select(sa.bindparam("number")), {"number": 2**64}  # too large for SQLite's driver
    raise OverflowError


async def test_an_unexpected_error_releases_its_locks(store: SqlStore, database_url: str) -> None:
    with pytest.raises(OverflowError) as caught:
        await store.arun(a_mistake, c.Now())

    with SqlStore(database_url, answer_timeout=LATE) as other:
        assert other.execute(c.Set(TASK, "k", "1", ANN)) == 1
    assert caught.value.__traceback__ is not None  # which holds the cursor up to here
    await store.aclose()


async def test_an_abandoned_write_is_not_executed_later(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with SqlStore(url) as other, SqlStore(url, answer_timeout=timedelta(seconds=0.2)) as store:
        holder = other._pool.take()
        holder.cursor.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable):
            await store.aexecute(c.DeclareAsset("orders"))

        holder.cursor.execute("ROLLBACK")
        other._pool.give(holder)
        await asyncio.get_running_loop().shutdown_default_executor()

        with pytest.raises(UnknownAsset):
            other.execute(c.GetAsset(AssetScope(name="orders")))


async def test_a_command_that_times_out_in_the_queue_leaves_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with SqlStore(url, answer_timeout=timedelta(seconds=0.2)) as store:
        with store._turn:
            with pytest.raises(StoreUnavailable):
                await store.aexecute(c.DeclareAsset("orders"))
            await asyncio.get_running_loop().shutdown_default_executor()

        with pytest.raises(UnknownAsset):
            store.execute(c.GetAsset(AssetScope(name="orders")))
