"""Appends of loads to Iceberg tables: exactly once, or a clear error with nothing changed."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from appending import load_of
from iceberg_appending import STEPS, append_in_process, disturb, new_table
from icebergs import ids, opened
from kept import Kept
from loading import connection
from lossy import ANSWER, REQUEST, losing
from objectserver import object_server
from pyiceberg.catalog import MetastoreCatalog
from pyspark.sql import SparkSession
from readers import read_by_all
from rest_catalog import RestCatalogServer, rest_catalog

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput, StoreUnavailable, TableChanged
from holdfast.spark import incremental
from holdfast.spark.lake.iceberg import IcebergTable, iceberg
from holdfast.spark.lake.iceberg_commit import OpenIcebergTable
from holdfast.spark.lake.table import CommitConflict, UnknownOutcome
from holdfast.spark.loads.bounding import Bounding


class Crash(Exception):
    """The end of an attempt, as if its process had died."""


def crash() -> None:
    raise Crash


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[AssetStore]:
    with connection(tmp_path) as store:
        yield store.asset_store(name="orders", declare=True)


@pytest.fixture
def facts(tmp_path: Path) -> IcebergTable:
    return new_table(tmp_path)


def crash_at(
    step: str, spark: SparkSession, asset: AssetStore, table: IcebergTable, n: int
) -> None:
    disturb(step, crash)
    with pytest.raises((Crash, UnknownOutcome)):
        load_of(spark, asset, n).append(table)


def data_files(directory: Path) -> set[str]:
    return {str(path) for path in directory.rglob("*.parquet")}


def numbers_of(table: IcebergTable) -> list[int]:
    return [stamp.number for _, stamp in opened(table)._stamps]


class TestLoads:
    def test_loads_append_the_rows_that_are_new(
        self, spark: SparkSession, orders: AssetStore, facts: IcebergTable
    ) -> None:
        results = [load_of(spark, orders, count).append(facts) for count in (5, 9, 9)]

        assert [(result.rows, result.to) for result in results] == [(5, 4), (4, 8), (0, 8)]
        assert ids(facts) == [*range(9)]
        assert orders.get("watermark")["value"] == 8
        assert numbers_of(facts) == [0, 1]

    def test_rows_of_partitions_are_found(
        self, spark: SparkSession, orders: AssetStore, tmp_path: Path
    ) -> None:
        facts = new_table(tmp_path, partition_by="part")
        load_of(spark, orders, 6).append(facts)
        load_of(spark, orders, 9).append(facts)

        now = opened(facts).table
        rows = now.scan("part = 1").to_arrow().to_pylist()
        assert [row["id"] for row in read_by_all(spark, facts)] == [*range(9)]
        assert sorted(row["id"] for row in rows) == [1, 4, 7]
        assert len(list(now.scan("part = 1").plan_files())) < len(now.inspect.files())
        assert ids(facts) == [*range(9)]

    @pytest.mark.parametrize("is_long", [False, True])
    def test_rows_of_hidden_partitions_are_found(
        self, spark: SparkSession, orders: AssetStore, tmp_path: Path, is_long: bool
    ) -> None:
        """A text that is too long for the name of a directory is written by executors."""
        facts = new_table(tmp_path, partition_by=["day(time)", "truncate(200, name)", "part"])
        text = "a/" * 100 if is_long else "a/"
        source = spark.range(48).selectExpr(
            "id",
            "id % 2 AS part",
            "timestamp_seconds(id * 3600 - 86400) AS time",
            f"concat('{text}', id) AS name",
        )
        incremental(source, orders, cursor="id").append(facts)

        now = opened(facts).table
        where = "time < '1970-01-01T00:00:00+00:00'"
        rows = now.scan(where).to_arrow().to_pylist()
        assert sorted(row["id"] for row in rows) == [*range(24)]
        assert len(list(now.scan(where).plan_files())) < len(now.inspect.files())
        assert ids(facts) == [*range(48)]
        assert now.schema().column_names == ["id", "part", "time", "name"]

    def test_values_are_those_of_spark(
        self, spark: SparkSession, orders: AssetStore, tmp_path: Path
    ) -> None:
        facts = new_table(tmp_path, partition_by=["day", "text"])
        source = spark.sql(
            """
            SELECT id, CAST(id AS TINYINT) AS tiny, CAST(id AS FLOAT) AS single,
                CAST(id / 4 AS DECIMAL(9, 2)) AS price, CAST(id AS DECIMAL(38, 10)) AS wide,
                date_add(DATE '1969-12-30', CAST(id AS INT)) AS day,
                timestamp_micros(id * 1000003 - 5) AS time,
                TIMESTAMP_NTZ '1582-10-04 12:00:00.000001' AS local,
                CASE id WHEN 0 THEN NULL WHEN 1 THEN '' ELSE concat('a/b=', id, ' %ü') END AS text,
                CAST('x' AS BINARY) AS content, array(id, NULL) AS list, map('k', id) AS map,
                struct(id AS x, NULL AS y, array(struct(id AS z)) AS deep) AS nested
            FROM range(4)
            """
        ).selectExpr("* EXCEPT (nested)", "struct(nested.x, nested.deep) AS nested")
        incremental(source, orders, cursor="id").append(facts)

        found = opened(facts).table.scan().to_arrow().sort_by("id").to_pylist()
        expected = [row.asDict(recursive=True) for row in source.orderBy("id").collect()]
        for row in expected:
            row["map"] = list(row["map"].items())
            row["time"] = row["time"].astimezone(UTC)
            row["content"] = bytes(row["content"])
        assert found == expected
        assert len(read_by_all(spark, facts)) == 4

    def test_new_columns_are_added_where_that_is_asked_for(
        self, spark: SparkSession, orders: AssetStore, tmp_path: Path
    ) -> None:
        load_of(spark, orders, 3).append(new_table(tmp_path))
        wider = spark.range(5).selectExpr("id", "id % 3 AS part", "'x' AS name", "id * 2 AS twice")
        again = {"catalog": opened_properties(tmp_path)}
        with pytest.raises(InvalidInput, match="`twice` .* is not in the table"):
            incremental(wider, orders, cursor="id").append(iceberg("lake.facts", **again))
        facts = iceberg("lake.facts", **again, evolve=True)
        incremental(wider, orders, cursor="id").append(facts)

        rows = opened(facts).table.scan().to_arrow().to_pylist()
        assert {row["id"]: row["twice"] for row in rows} == {0: None, 1: None, 2: None, 3: 6, 4: 8}

    @pytest.mark.parametrize("step", ["planned", "written", "confirmed", "sending"])
    def test_a_retry_writes_what_an_attempt_did_not_commit(
        self, spark: SparkSession, orders: AssetStore, facts: IcebergTable, step: str
    ) -> None:
        load_of(spark, orders, 3).append(facts)
        disturb(step, crash)
        if step == "sending":  # whose outcome is unknown: it is tried again at once
            load_of(spark, orders, 7).append(facts)
        else:
            with pytest.raises(Crash):
                load_of(spark, orders, 7).append(facts)
            assert ids(facts) == [*range(3)]
            assert load_of(spark, orders, 12).append(facts).rows == 4
        assert ids(facts) == [*range(7)]
        assert load_of(spark, orders, 12).append(facts).rows == 5
        assert ids(facts) == [*range(12)]

    @pytest.mark.parametrize("step", ["committed", "appended"])
    def test_a_retry_adopts_a_commit_and_reads_nothing(
        self,
        spark: SparkSession,
        orders: AssetStore,
        facts: IcebergTable,
        step: str,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        crash_at(step, spark, orders, facts, 7)
        assert orders.get("watermark") is None
        before = data_files(tmp_path)

        with monkeypatch.context() as patch:
            patch.setattr(Bounding, "result", crash)
            assert load_of(spark, orders, 12).append(facts).rows == 7
        assert data_files(tmp_path) == before
        assert orders.get("watermark")["value"] == 6
        load_of(spark, orders, 12).append(facts)
        assert ids(facts) == [*range(12)]


class TestOthers:
    def test_other_writers_commit_in_between(
        self, spark: SparkSession, orders: AssetStore, facts: IcebergTable
    ) -> None:
        load_of(spark, orders, 3).append(facts)
        disturb("confirmed", lambda: add_row(facts, 100))
        load_of(spark, orders, 6).append(facts)
        opened(facts).table.delete("id = 100")
        load_of(spark, orders, 9).append(facts)

        assert ids(facts) == [*range(9)]

    def test_columns_that_change_meanwhile_are_an_error(
        self, spark: SparkSession, orders: AssetStore, facts: IcebergTable
    ) -> None:
        load_of(spark, orders, 3).append(facts)

        def rename() -> None:
            with opened(facts).table.update_schema() as change:
                change.rename_column("name", "title")

        disturb("confirmed", rename)
        with pytest.raises(TableChanged, match="columns .* have changed"):
            load_of(spark, orders, 6).append(facts)
        assert ids(facts) == [*range(3)]

    def test_a_commit_with_a_lost_answer_is_found(
        self,
        spark: SparkSession,
        orders: AssetStore,
        facts: IcebergTable,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        load_of(spark, orders, 3).append(facts)
        commit, losses = OpenIcebergTable.append, [UnknownOutcome, CommitConflict]

        def lose(self: OpenIcebergTable, *arguments: Any) -> str:
            version = commit(self, *arguments)
            if losses:
                raise losses.pop()("the answer is lost")
            return version

        monkeypatch.setattr(OpenIcebergTable, "append", lose)
        assert load_of(spark, orders, 6).append(facts).rows == 3
        assert load_of(spark, orders, 9).append(facts).rows == 3

        assert ids(facts) == [*range(9)]
        assert losses == []

    def test_a_commit_that_an_earlier_attempt_makes_late_is_adopted(
        self,
        spark: SparkSession,
        orders: AssetStore,
        facts: IcebergTable,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        load_of(spark, orders, 3).append(facts)
        commit, held = OpenIcebergTable.append, []

        def hold(*arguments: Any) -> str:
            held.append(arguments)
            raise Crash

        with monkeypatch.context() as patch, pytest.raises(Crash):
            patch.setattr(OpenIcebergTable, "append", hold)
            load_of(spark, orders, 7).append(facts)
        before = data_files(tmp_path)
        disturb("confirmed", lambda: commit(*held[0]))
        assert load_of(spark, orders, 7).append(facts).rows == 4

        assert ids(facts) == [*range(7)]
        assert data_files(tmp_path) == before  # those of the second attempt are removed
        with pytest.raises(CommitConflict):
            commit(*held[0])

    def test_a_table_that_was_rolled_back_does_not_get_the_rows_again_by_itself(
        self, spark: SparkSession, orders: AssetStore, facts: IcebergTable
    ) -> None:
        load_of(spark, orders, 3).append(facts)
        first = opened(facts).version
        crash_at("committed", spark, orders, facts, 7)
        opened(facts).table.manage_snapshots().rollback_to_snapshot(int(first)).commit()

        with pytest.raises(TableChanged, match="restored to an earlier version"):
            load_of(spark, orders, 7).append(facts)
        assert ids(facts) == [*range(3)]
        orders.delete("watermark/plan")
        assert load_of(spark, orders, 7).append(facts).rows == 4
        assert ids(facts) == [*range(7)]

    def test_a_rewound_watermark_does_not_append_rows_twice(
        self, spark: SparkSession, orders: AssetStore, facts: IcebergTable
    ) -> None:
        versions = []
        for count in (3, 6, 9):
            load_of(spark, orders, count).append(facts)
            versions.append(int(opened(facts).version))
        orders.rewind("watermark", version=orders.history("watermark")[-1].version)

        with pytest.raises(TableChanged, match="does not know as succeeded"):
            load_of(spark, orders, 12).append(facts)
        assert ids(facts) == [*range(9)]
        opened(facts).table.manage_snapshots().rollback_to_snapshot(versions[0]).commit()
        load_of(spark, orders, 12).append(facts)
        assert ids(facts) == [*range(12)]

    def test_expired_history_is_adopted_with_a_warning(
        self,
        spark: SparkSession,
        orders: AssetStore,
        facts: IcebergTable,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        load_of(spark, orders, 3).append(facts)
        crash_at("committed", spark, orders, facts, 7)
        expired = int(opened(facts).version)
        add_row(facts, 100)
        opened(facts).table.maintenance.expire_snapshots().by_id(expired).commit()

        with caplog.at_level(logging.WARNING, "holdfast"):
            result = load_of(spark, orders, 9).append(facts)

        assert result.rows is None
        assert "unverified" in caplog.text
        assert orders.get("watermark")["value"] == 6
        assert load_of(spark, orders, 9).append(facts).rows == 2
        assert ids(facts) == [*range(9), 100]

    def test_two_stores_append_to_one_table(
        self, spark: SparkSession, orders: AssetStore, facts: IcebergTable, tmp_path: Path
    ) -> None:
        (tmp_path / "other").mkdir()
        with connection(tmp_path / "other") as other:
            theirs = other.asset_store(name="orders", declare=True)
            for count in (3, 6):
                load_of(spark, orders, count).append(facts)
                load_of(spark, theirs, count).append(facts)

        assert ids(facts) == sorted([*range(6), *range(6)])

    def test_a_dropped_table_is_an_error(
        self, spark: SparkSession, orders: AssetStore, facts: IcebergTable
    ) -> None:
        load_of(spark, orders, 3).append(facts)
        disturb("confirmed", lambda: facts.catalog().drop_table("lake.facts"))
        with pytest.raises(TableChanged, match="was removed while rows were written"):
            load_of(spark, orders, 6).append(facts)
        assert orders.get("watermark")["value"] == 2


class TestCatalogs:
    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[RestCatalogServer]:
        with rest_catalog(new_table(tmp_path).catalog()) as server:
            yield server

    @pytest.mark.parametrize("loss", [REQUEST, ANSWER])
    def test_a_response_that_is_lost_counts_once(
        self, spark: SparkSession, orders: AssetStore, server: RestCatalogServer, loss: str
    ) -> None:
        direct = iceberg("lake.facts", catalog={"uri": server.url}, create=True)
        load_of(spark, orders, 3).append(direct)
        with losing(server.url) as proxy:
            facts = iceberg("lake.facts", catalog={"uri": proxy.url})
            disturb("sending", lambda: proxy.losses.append(loss))
            assert load_of(spark, orders, 7).append(facts).rows == 4
            assert proxy.losses == []
        assert ids(direct) == [*range(7)]
        assert server.commits == [200, 200]
        assert orders.get("watermark")["value"] == 6

    @pytest.mark.parametrize("status", [409, 500, 503])
    def test_an_error_after_the_commit_counts_once(
        self, spark: SparkSession, orders: AssetStore, server: RestCatalogServer, status: int
    ) -> None:
        facts = iceberg("lake.facts", catalog={"uri": server.url}, create=True)
        server.failures.append(status)
        assert load_of(spark, orders, 3).append(facts).rows == 3
        assert load_of(spark, orders, 7).append(facts).rows == 4
        assert ids(facts) == [*range(7)]
        assert server.commits == [200, 200]

    def test_a_catalog_that_goes_away_leaves_the_watermark(
        self, spark: SparkSession, orders: AssetStore, tmp_path: Path
    ) -> None:
        catalog = new_table(tmp_path).catalog()
        with rest_catalog(catalog) as server:
            facts = iceberg("lake.facts", catalog={"uri": server.url}, create=True)
            load_of(spark, orders, 3).append(facts)
        with pytest.raises(StoreUnavailable, match="the catalog does not answer"):
            load_of(spark, orders, 7).append(facts)
        assert orders.get("watermark")["value"] == 2
        with rest_catalog(catalog) as server:
            facts = iceberg("lake.facts", catalog={"uri": server.url})
            # The address is not what makes it the same table.
            assert load_of(spark, orders, 7).append(facts).rows == 4
            assert ids(facts) == [*range(7)]

    @pytest.mark.full
    def test_loads_are_appended_on_s3(
        self, classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
    ) -> None:
        with object_server() as server:
            facts = on_s3(tmp_path, server.endpoint, server.make_bucket())
            for count in (5, 9, 9):
                load_of(classic_spark, orders, count).append(facts)
            assert ids(facts) == [*range(9)]
            [stamp, _] = [stamp for _, stamp in opened(facts)._stamps]
            assert stamp.writer == "Arrow on Spark's executors"

    @pytest.mark.parametrize("is_written", [False, True])
    def test_metadata_that_cannot_be_written_at_once_counts_once(
        self,
        spark: SparkSession,
        orders: AssetStore,
        facts: IcebergTable,
        is_written: bool,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        load_of(spark, orders, 3).append(facts)
        write, failures = MetastoreCatalog._write_metadata, [OSError, TimeoutError]

        def fail(*given: Any, **named: Any) -> None:
            if is_written or not failures:
                write(*given, **named)
            if failures:
                raise failures.pop()("503 Service Unavailable")

        monkeypatch.setattr(MetastoreCatalog, "_write_metadata", staticmethod(fail))
        assert load_of(spark, orders, 7).append(facts).rows == 4
        assert failures == []
        assert ids(facts) == [*range(7)]
        assert numbers_of(facts) == [0, 1]


def on_s3(directory: Path, endpoint: str, warehouse: str) -> IcebergTable:
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": warehouse,
        "s3.endpoint": endpoint,
        "s3.access-key-id": "testing",
        "s3.secret-access-key": "testing-secret",
        "s3.region": "us-east-1",
    }
    facts = iceberg("lake.facts", catalog=properties, create=True, partition_by="part")
    facts.catalog().create_namespace("lake")
    return facts


def opened_properties(directory: Path) -> dict[str, str]:
    uri = f"sqlite:///{directory}/catalog.db"
    return {"type": "sql", "uri": uri, "warehouse": f"file://{directory}/lake"}


def add_row(table: IcebergTable, number: int) -> None:
    rows = {"id": [number], "part": [0], "name": ["other"]}
    opened(table).table.append(pa.table(rows))


class TestProcesses:
    @pytest.fixture
    def append(
        self,
        spark_server: Kept,
        tmp_path: Path,
        facts: IcebergTable,
        in_process: Callable[..., Any],
    ) -> Callable[..., str]:
        """Return a function that appends a load in another process, and returns its error."""

        def call(count: int, step: str = "", number: int = 0) -> str:
            arguments = (spark_server.address, tmp_path, facts, count, step, number)
            return str(in_process(append_in_process, *arguments))

        return call

    @pytest.fixture
    def pool(self, forking: ForkServerContext) -> Iterator[ProcessPoolExecutor]:
        with ProcessPoolExecutor(3, mp_context=forking) as pool:
            yield pool

    @pytest.mark.full
    @pytest.mark.parametrize("step", STEPS)
    def test_a_driver_that_is_killed_neither_loses_nor_repeats_rows(
        self, append: Callable[..., str], facts: IcebergTable, step: str
    ) -> None:
        assert append(3) == ""
        with pytest.raises(BrokenProcessPool):
            append(7, step, signal.SIGKILL)

        assert append(7) == ""
        assert append(12) == ""
        assert ids(facts) == [*range(12)]
        assert numbers_of(facts) == [0, 1, 2]

    @pytest.mark.parametrize("step", ["written", "confirmed", "sending", "answered", "appended"])
    @pytest.mark.parametrize("later", [0, 1])
    def test_a_zombie_neither_loses_nor_repeats_rows(
        self,
        append: Callable[..., str],
        pool: ProcessPoolExecutor,
        spark_server: Kept,
        tmp_path: Path,
        facts: IcebergTable,
        step: str,
        later: int,
    ) -> None:
        """It resumes after its successor's commit, or after that of a later load, too."""
        assert append(3) == ""
        arguments = (spark_server.address, tmp_path, facts, 7, step, signal.SIGSTOP)
        zombie = pool.submit(append_in_process, *arguments)
        process = paused(pool)

        assert append(7) == ""
        if later:
            assert append(9) == ""
        process.resume()
        error = zombie.result(60)

        assert error.startswith(("VersionConflict", "TableChanged"))
        assert append(12) == ""
        assert ids(facts) == [*range(12)]

    @pytest.mark.full
    def test_of_several_runs_at_once_one_appends(
        self,
        pool: ProcessPoolExecutor,
        append: Callable[..., str],
        spark_server: Kept,
        tmp_path: Path,
        facts: IcebergTable,
    ) -> None:
        assert append(3) == ""
        for count in (6, 9):
            arguments = (spark_server.address, tmp_path, facts, count, "", 0)
            errors = [pool.submit(append_in_process, *arguments) for _ in range(3)]
            kinds = [error.result(120).partition(":")[0] for error in errors]
            assert set(kinds) <= {"", "VersionConflict", "SparkBusy"}
            assert append(count) == ""

        assert ids(facts) == [*range(9)]
        assert numbers_of(facts) == [0, 1, 2]


def paused(pool: ProcessPoolExecutor) -> psutil.Process:
    """Return the process of a pool that has paused itself."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for process in map(psutil.Process, pool._processes):
            if process.status() == psutil.STATUS_STOPPED:
                return process
        time.sleep(0.05)
    raise AssertionError("no process has paused")
