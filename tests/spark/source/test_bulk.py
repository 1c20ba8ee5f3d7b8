"""Bulk writes of DataFrames to the stores of a server, on each kind of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from bulk_rows import ROWS, asset_rows, save, staged, task_rows
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from servers import SqliteDatabase

import holdfast
from holdfast import Connection
from holdfast import commands as c
from holdfast.access.identity import UserIdentity
from holdfast.model.entry import ApiWriter
from holdfast.model.role import Role
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import Api, Settings
from holdfast.spark.source.registration import register
from holdfast.stores.sql import SqlStore

LATER = datetime(2999, 1, 1, tzinfo=UTC)


@pytest.fixture
def url(sqlite_database: SqliteDatabase) -> str:
    return sqlite_database.empty()


@pytest.fixture
def server(url: str, tmp_path: Path) -> Iterator[EmbeddedServer]:
    settings = Settings(api=Api(rate_limit=0, access_log=False), directory=tmp_path)
    with SqlStore(url) as store:
        server = EmbeddedServer(store, settings)
        yield server
        server.close()


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with holdfast.connect(url) as connection:
        yield connection


@pytest.mark.full
def test_a_dataframe_is_written_through_a_server(
    spark: SparkSession, server: EmbeddedServer, connection: Connection
) -> None:
    orders = connection.asset_store(name="orders", declare=True)
    orders.set("key 1", "old")
    token = server.tokens.issue(UserIdentity("ann", Role.EDITOR))
    register(spark, server.url, token=token)

    save(task_rows(spark))
    save(asset_rows(spark), "asset_store")

    entries = [
        entry
        for index in range(4)
        for entry in connection.task_store("imported", "first", "load", index).items()
    ]
    assert sorted(value["n"] for _, value in entries) == list(range(ROWS))
    entry = connection.task_store("imported", "first", "load", 1).entry("key 1")
    assert entry is not None
    assert (entry.value, entry.expires_at) == ({"n": 1}, LATER)
    assert entry.writer == ApiWriter("ann")
    assert orders.items() == [("key 0", 0), ("key 1", 1), ("key 2", 2)]
    assert [step.value for step in orders.history("key 1")] == [1, "old"]


@pytest.mark.full
def test_a_bad_row_fails_the_write_names_itself_and_nothing_is_written(
    spark: SparkSession, server: EmbeddedServer, connection: Connection, url: str
) -> None:
    register(spark, server.url, token=server.tokens.issue(UserIdentity("ann", Role.EDITOR)))
    bad = F.when(F.col("key") == "key 17", "{").otherwise(F.col("value"))

    with pytest.raises(Exception, match=r"`key 17` of task imported/first/load\[1\]: .* not JSON"):
        save(task_rows(spark).withColumn("value", bad))

    assert connection.store.execute(c.ListTasks("imported", "first")) == ()
    assert staged(url) == 0


@pytest.mark.full
@pytest.mark.parametrize("spark", ["cluster"], indirect=True)
def test_the_error_of_workers_without_holdfast_says_that_a_database_needs_it(
    spark: SparkSession, url: str
) -> None:
    register(spark, url)

    with pytest.raises(
        Exception, match=r"`\w+[\w.]*` is not installed here\s+hint: install them there, or use"
    ):
        save(task_rows(spark))

    assert staged(url) == 0
