"""Bulk writes of DataFrames: atomic, and by the rules of a `set`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa
from bulk_rows import ROWS, asset_rows, save, staged, task_rows
from pyspark.sql import SparkSession
from servers import SqliteDatabase

import holdfast
from holdfast import Connection
from holdfast import commands as c
from holdfast.access.identity import TaskIdentity
from holdfast.commands import StartLoad
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import Api, Settings
from holdfast.spark.source.registration import register
from holdfast.stores.sql import SqlStore

DRIVER = Path(__file__).parents[1] / "bulk_driver.py"


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


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def age_loads(url: str) -> None:
    """Set the start of the loads to two days ago."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE hf_load SET started_at = started_at - 172800000000")
    engine.dispose()


@pytest.mark.full
def test_a_task_writes_its_own_store_and_no_other(
    local_spark: SparkSession, server: EmbeddedServer, connection: Connection
) -> None:
    scope = TaskScope("imported", "first", "load", 1)
    connection.store.execute(c.RegisterTask(scope))
    attempt = connection.store.execute(c.StartAttempt(scope))
    token = server.tokens.issue(TaskIdentity(scope, attempt))
    register(local_spark, server.url, token=token)
    own = task_rows(local_spark).where("map_index = 1")

    save(own)
    with pytest.raises(Exception, match=r"AddToLoad of task imported/first/load\[\d\]: attempt 1"):
        save(task_rows(local_spark))

    [found] = {
        entry.entry.writer for entry in connection.store.execute(c.List(c.TaskFilter())).found
    }
    assert found == TaskWriter(scope)
    assert len(connection.task_store("imported", "first", "load", 1).keys()) == 10


@pytest.mark.full
def test_a_dataframe_is_written_to_a_database(local_spark: SparkSession, database_url: str) -> None:
    register(local_spark, database_url)
    before = datetime.now(UTC)
    with holdfast.connect(database_url) as connection:
        orders = connection.asset_store(uri="s3://lake/orders", declare=True)
        by_uri = asset_rows(local_spark).selectExpr("'s3://lake/orders' AS uri", "key", "value")

        save(task_rows(local_spark).drop("expires_at"))
        save(by_uri, "asset_store")

        entry = connection.task_store("imported", "first", "load", 1).entry("key 1")
        page = connection.store.execute(c.List(c.TaskFilter(dag_id="imported")))
        assert page.total == ROWS
        assert entry is not None
        assert entry.expires_at is not None
        month = timedelta(days=30)
        assert before + month <= entry.expires_at <= datetime.now(UTC) + month
        assert orders.items() == [("key 0", 0), ("key 1", 1), ("key 2", 2)]


@pytest.mark.full
def test_a_duplicate_key_fails_the_write(
    local_spark: SparkSession, url: str, connection: Connection
) -> None:
    register(local_spark, url)
    rows = task_rows(local_spark).where("map_index = 1")

    with pytest.raises(
        Exception, match=r"`key \d+` of task imported/first/load\[1\] occurs more than"
    ):
        save(rows.union(rows))

    assert connection.store.execute(c.ListTasks("imported", "first")) == ()
    assert staged(url) == 0


@pytest.mark.full
def test_the_rows_of_a_failed_spark_task_attempt_are_not_written(
    local_spark: SparkSession, url: str, connection: Connection, tmp_path: Path
) -> None:
    register(local_spark, url)
    mark = tmp_path / "failed"

    def failing_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield next(batches)
        if not mark.exists():
            mark.touch()
            raise RuntimeError("this try fails after some rows were brought")
        yield from batches

    rows = local_spark.range(0, 12_000, numPartitions=1).selectExpr(
        "'imported' AS dag_id",
        "'first' AS run_id",
        "'load' AS task_id",
        "string(id) AS key",
        "to_json(array(repeat('long enough to be sent before the failure', 10))) AS value",
    )
    save(rows.mapInArrow(failing_once, rows.schema))

    assert mark.exists()
    assert len(connection.task_store("imported", "first", "load").keys()) == 12_000
    assert staged(url) == 0


@pytest.mark.full
def test_an_inactive_asset_refuses_the_write(
    local_spark: SparkSession, url: str, connection: Connection
) -> None:
    register(local_spark, url)
    connection.store.execute(c.DeclareDagAssets("sales", (("orders", "o"),)))
    connection.store.execute(c.DeclareDagAssets("sales", ()))

    with pytest.raises(Exception, match="asset `orders` is inactive"):
        save(asset_rows(local_spark), "asset_store")

    assert connection.store.execute(c.List(AssetScope(name="orders"))).total == 0


def test_a_killed_driver_leaves_only_rows_that_the_next_load_removes(
    url: str, connection: Connection
) -> None:
    driver = subprocess.Popen(
        [sys.executable, str(DRIVER), url], start_new_session=True, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: staged(url) > 0 or driver.poll() is not None)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    left = staged(url)
    assert connection.store.execute(c.ListTasks("imported", "first")) == ()

    age_loads(url)
    connection.store.execute(StartLoad("next", ApiWriter("ann")))

    assert left > 0
    assert staged(url) == 0
