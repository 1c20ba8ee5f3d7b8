"""Iceberg tables as targets of commits: catalogs, conflicts, lost responses, history."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from threading import Barrier
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from icebergs import (
    ORDERS,
    append,
    created,
    ids,
    opened,
    orders,
    stamp,
    write_file,
    written,
)
from lossy import ANSWER, REQUEST, losing
from objectserver import object_server
from pyiceberg.catalog import load_catalog
from pyspark.sql import types as spark
from rest_catalog import RestCatalogServer, rest_catalog
from webserver import free_port

from holdfast.errors import (
    Forbidden,
    HoldfastError,
    InvalidInput,
    InvalidType,
    MissingDependency,
    NotSupported,
    StoreUnavailable,
    TableChanged,
)
from holdfast.portable.lake.partitions import partition_text
from holdfast.spark.lake import iceberg_catalog
from holdfast.spark.lake.iceberg import IcebergTable, iceberg
from holdfast.spark.lake.iceberg_commit import OpenIcebergTable
from holdfast.spark.lake.iceberg_types import iceberg_schema
from holdfast.spark.lake.table import (
    CommitConflict,
    Found,
    Identity,
    PartitionColumn,
    Storage,
    UnknownOutcome,
)

Properties = dict[str, str]


@pytest.fixture
def sqlite(tmp_path: Path) -> Properties:
    """The properties of a catalog with the namespace `sales`."""
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    return with_namespace({"type": "sql", "name": "prod", **place})


@pytest.fixture
def table(sqlite: Properties) -> IcebergTable:
    """A table with the columns of `ORDERS`, and no rows."""
    return created(iceberg("sales.orders", catalog=sqlite))


@pytest.fixture
def server(sqlite: Properties) -> Iterator[RestCatalogServer]:
    given = {key: value for key, value in sqlite.items() if key != "name"}
    with rest_catalog(load_catalog("prod", **given)) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres", "rest"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Properties:
    """The properties of a catalog of each kind, with the namespace `sales`."""
    if request.param == "rest":
        url = request.getfixturevalue("server").url
        return {"type": "rest", "name": "prod", "uri": url}
    if request.param == "postgres":
        uri = request.getfixturevalue("postgres").new_database()
        lake = f"file://{tmp_path}/lake"
        return with_namespace({"type": "sql", "name": "prod", "uri": uri, "warehouse": lake})
    sqlite: Properties = request.getfixturevalue("sqlite")
    return sqlite


def with_namespace(properties: Properties) -> Properties:
    catalog = iceberg("sales.orders", catalog=properties).catalog()
    catalog.create_namespace("sales")
    return properties


def concurrently(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Return the results of a function, or its errors, for the numbers below `count`."""

    def result(number: int) -> Any:
        try:
            return work(number)
        except HoldfastError as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(result, range(count)))


def files_below(place: Path) -> set[str]:
    return {str(path) for path in place.rglob("*") if path.is_file()}


def losing_the_response(table: OpenIcebergTable, error: Exception) -> OpenIcebergTable:
    """Let a table's catalog raise an error after the next commit."""
    catalog: Any = table.table.catalog
    commit = catalog.commit_table

    def lost(*given: Any) -> None:
        del catalog.commit_table
        commit(*given)
        raise error

    catalog.commit_table = lost
    return table


class TestCommits:
    def test_a_commit_has_the_rows_the_stamp_and_the_number(self, catalog: Properties) -> None:
        table = created(iceberg("sales.orders", catalog=catalog))
        version = append(table, 7, 1, 2)
        now = opened(table)
        assert ids(table) == [1, 2]
        assert now.version == version
        assert now.newest("loads") == 7
        assert now.newest("others") is None
        assert now.commit_of(stamp(7).identity) == Found(version, stamp(7))

    def test_a_table_on_s3_is_written_and_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with object_server() as server:
            keys = server.environment
            properties = with_namespace(
                {
                    "type": "sql",
                    "uri": f"sqlite:///{tmp_path}/catalog.db",
                    "warehouse": server.make_bucket(),
                    "s3.endpoint": server.endpoint,
                    "s3.access-key-id": keys["AWS_ACCESS_KEY_ID"],
                    "s3.secret-access-key": keys["AWS_SECRET_ACCESS_KEY"],
                    "s3.region": keys["AWS_REGION"],
                }
            )
            table = created(iceberg("sales.orders", catalog=properties))
            append(table, 1, 1, 2)
            append(table, 2, 3)
            assert ids(table) == [1, 2, 3]
            assert opened(table).storage.location.startswith("s3://bucket-")

    def test_a_commit_without_files_records_the_write(self, table: IcebergTable) -> None:
        version = opened(table).append([], stamp(1, rows=0))
        assert opened(table).commit_of(stamp(1).identity) == Found(version, stamp(1, rows=0))

    def test_one_commit_of_a_snapshot_excludes_all_others(self, catalog: Properties) -> None:
        table = created(iceberg("sales.orders", catalog=catalog))
        first, second = opened(table), opened(table)
        first.append(written(first, orders(1)), stamp(1))
        with pytest.raises(CommitConflict, match="changed by another commit"):
            second.append(written(second, orders(2)), stamp(1, sequence="others"))
        assert ids(table) == [1]

    def test_a_commit_is_never_tried_again_by_the_library(
        self, table: IcebergTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with opened(table).table.transaction() as change:
            change.set_properties({"commit.retry.num-retries": "10"})
        first, second = opened(table), opened(table)
        first.append(written(first, orders(1)), stamp(1))
        with pytest.raises(CommitConflict):
            second.append(written(second, orders(1)), stamp(1))
        assert ids(table) == [1]
        properties = opened(table).table.properties
        assert properties["commit.retry.num-retries"] == "10"

    def test_a_refused_commit_leaves_no_metadata(self, table: IcebergTable, tmp_path: Path) -> None:
        first, second = opened(table), opened(table)
        files = written(second, orders(2))
        first.append(written(first, orders(1)), stamp(1))
        before = files_below(tmp_path / "lake")
        with pytest.raises(CommitConflict):
            second.append(files, stamp(2))
        assert files_below(tmp_path / "lake") == before

    def test_commits_of_others_stay(self, table: IcebergTable) -> None:
        append(table, 1, 1)
        opened(table).table.append(pa.table({"id": [9], "country": ["FR"]}))
        append(table, 2, 2)
        assert ids(table) == [1, 2, 9]
        assert opened(table).newest("loads") == 2

    def test_manifests_are_merged_where_the_table_says_so(self, table: IcebergTable) -> None:
        with opened(table).table.transaction() as change:
            change.set_properties(
                {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
            )
        for number in range(1, 6):
            append(table, number, number)
        now = opened(table).table
        snapshot = now.current_snapshot()
        assert snapshot is not None
        assert len(snapshot.manifests(now.io)) < 5
        assert ids(table) == [1, 2, 3, 4, 5]

    def test_eight_commits_of_one_write_at_once_are_one(self, catalog: Properties) -> None:
        created(iceberg("sales.orders", catalog=catalog))
        barrier = Barrier(8)

        def commit(number: int) -> str:
            now = opened(iceberg("sales.orders", catalog=catalog))
            files = written(now, orders(1, 2))
            barrier.wait()
            return now.append(files, stamp(1))

        results = concurrently(8, commit)
        succeeded = [one for one in results if isinstance(one, str)]
        assert len(succeeded) == 1
        assert {type(one) for one in results} <= {str, CommitConflict, UnknownOutcome}
        table = iceberg("sales.orders", catalog=catalog)
        assert ids(table) == [1, 2]
        assert opened(table).version == succeeded[0]

    def test_eight_different_writes_at_once_all_succeed(self, catalog: Properties) -> None:
        created(iceberg("sales.orders", catalog=catalog))
        barrier = Barrier(8)

        def commit(number: int) -> str:
            table = iceberg("sales.orders", catalog=catalog)
            mine = stamp(1, sequence=f"loads-{number}")
            now = opened(table)
            files = written(now, orders(number))
            barrier.wait()
            while True:
                try:
                    return now.append(files, mine)
                except (CommitConflict, UnknownOutcome):
                    now = opened(table)
                    if (found := now.commit_of(mine.identity)) is not None:
                        return found.version

        results = concurrently(8, commit)
        assert len(set(results)) == 8
        table = iceberg("sales.orders", catalog=catalog)
        assert ids(table) == list(range(8))
        assert [opened(table).newest(f"loads-{number}") for number in range(8)] == [1] * 8

    def test_a_write_that_the_table_has_is_not_committed_again(self, table: IcebergTable) -> None:
        append(table, 1, 1)
        with pytest.raises(CommitConflict, match="has commit 1 of loads already"):
            append(table, 1, 1)
        assert ids(table) == [1]

    def test_an_older_write_is_not_committed_after_a_newer_one(self, table: IcebergTable) -> None:
        append(table, 2, 2)
        with pytest.raises(CommitConflict, match="has commit 2 of loads already"):
            append(table, 1, 1)

    def test_a_thousand_files_are_committed_within_three_seconds(self, sqlite: Properties) -> None:
        columns = spark.StructType().add("id", "long")
        for number in range(20):
            columns = columns.add(f"column{number}", "double" if number % 2 else "string")
        table = created(iceberg("sales.wide", catalog=sqlite), columns)
        now = opened(table)
        row: dict[str, Any] = {field.name: [None] for field in columns}
        row = {name: [0.5 if name[-1] in "13579" else "text"] for name in row} | {"id": [1]}
        [first] = written(now, pa.table(row).to_batches()[0])
        files = [
            first._replace(path=f"data-holdfast/load/x/{number}.parquet") for number in range(1000)
        ]
        began = time.monotonic()
        now.append(files, stamp(1, rows=1000))
        seconds = time.monotonic() - began
        print(f"commit of 1,000 files with 21 columns: {seconds:.2f} s")
        assert len(opened(table).table.inspect.files()) == 1000
        assert seconds <= 3


class TestLostResponses:
    def test_a_lost_response_is_an_unknown_outcome(self, catalog: Properties) -> None:
        table = created(iceberg("sales.orders", catalog=catalog))
        now = losing_the_response(opened(table), ConnectionResetError("reset by peer"))
        with pytest.raises(UnknownOutcome, match="reset by peer"):
            now.append(written(now, orders(1)), stamp(1))
        assert ids(table) == [1]
        found = opened(table).commit_of(stamp(1).identity)
        assert found == Found(opened(table).version, stamp(1))

    @pytest.mark.parametrize("loss", [REQUEST, ANSWER])
    def test_a_connection_that_breaks_is_an_unknown_outcome(
        self, server: RestCatalogServer, loss: str
    ) -> None:
        created(iceberg("sales.orders", catalog={"type": "rest", "uri": server.url}))
        with losing(server.url) as proxy:
            table = iceberg("sales.orders", catalog={"type": "rest", "uri": proxy.url})
            now = opened(table)
            files = written(now, orders(1))
            proxy.losses.append(loss)
            with pytest.raises(UnknownOutcome):
                now.append(files, stamp(1))
            found = opened(table).commit_of(stamp(1).identity)
            assert (found is not None) == (loss == ANSWER)
            assert server.commits == [200] * (loss == ANSWER)
            assert ids(table) == [1] * (loss == ANSWER)

    @pytest.mark.parametrize("status", [500, 502, 503, 504])
    def test_an_error_after_the_commit_is_an_unknown_outcome(
        self, server: RestCatalogServer, status: int
    ) -> None:
        table = created(iceberg("sales.orders", catalog={"type": "rest", "uri": server.url}))
        server.failures.append(status)
        with pytest.raises(UnknownOutcome):
            append(table, 1, 1)
        assert server.commits == [200]
        assert ids(table) == [1]

    def test_a_response_that_takes_too_long_is_an_unknown_outcome(
        self, server: RestCatalogServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(iceberg_catalog, "_TIMEOUT", (5, 1))
        table = created(iceberg("sales.orders", catalog={"type": "rest", "uri": server.url}))
        server.delays.append(3)
        with pytest.raises(UnknownOutcome, match="timed out"):
            append(table, 1, 1)
        assert server.commits == [200]
        assert ids(table) == [1]

    def test_a_request_that_was_sent_twice_has_succeeded(self, server: RestCatalogServer) -> None:
        table = created(iceberg("sales.orders", catalog={"type": "rest", "uri": server.url}))
        server.failures.append(409)
        version = append(table, 1, 1)
        assert server.commits == [200]
        assert opened(table).version == version
        assert ids(table) == [1]  # its manifests have not been removed

    def test_an_attempt_that_lost_its_response_keeps_its_manifests(
        self, table: IcebergTable
    ) -> None:
        now = losing_the_response(opened(table), TimeoutError("too slow"))
        with pytest.raises(UnknownOutcome):
            now.append(written(now, orders(1)), stamp(1))
        with pytest.raises(CommitConflict):
            now.append(written(now, orders(1)), stamp(1))
        assert ids(table) == [1]


class TestHistory:
    def test_an_expired_commit_is_known_by_its_number_alone(self, table: IcebergTable) -> None:
        first = append(table, 1, 1)
        append(table, 2, 2)
        opened(table).table.maintenance.expire_snapshots().by_id(int(first)).commit()
        now = opened(table)
        assert now.newest("loads") == 2
        assert now.commit_of(Identity("loads", 1, "")) == Found("", None)
        found = now.commit_of(stamp(2).identity)
        assert found is not None and found.stamp == stamp(2)

    def test_the_newest_number_outlives_all_snapshots_of_its_sequence(
        self, table: IcebergTable
    ) -> None:
        first = append(table, 1, 1)
        opened(table).table.append(pa.table({"id": [9], "country": ["FR"]}))
        opened(table).table.maintenance.expire_snapshots().by_id(int(first)).commit()
        assert opened(table).newest("loads") == 1
        assert opened(table).commit_of(stamp(1).identity) == Found("", None)
        with pytest.raises(CommitConflict):
            append(table, 1, 1)
        assert ids(table) == [1, 9]

    def test_a_number_that_no_commit_has_is_told_from_an_expired_one(
        self, table: IcebergTable
    ) -> None:
        append(table, 1, 1)
        append(table, 3, 3)
        assert opened(table).commit_of(stamp(2).identity) is None
        assert opened(table).commit_of(stamp(4).identity) is None

    def test_a_rolled_back_commit_is_undone(self, table: IcebergTable) -> None:
        first = append(table, 1, 1)
        second = append(table, 2, 2)
        opened(table).table.manage_snapshots().rollback_to_snapshot(int(first)).commit()
        now = opened(table)
        assert ids(table) == [1]
        assert now.newest("loads") == 2
        assert now.commit_of(stamp(2).identity) == Found(second, stamp(2), is_undone=True)
        assert now.commit_of(stamp(1).identity) == Found(first, stamp(1))

    def test_a_rolled_back_commit_is_undone_though_others_followed(
        self, table: IcebergTable
    ) -> None:
        first = append(table, 1, 1)
        append(table, 2, 2)
        opened(table).table.manage_snapshots().rollback_to_snapshot(int(first)).commit()
        opened(table).table.append(pa.table({"id": [9], "country": ["FR"]}))
        found = opened(table).commit_of(stamp(2).identity)
        assert found is not None and found.is_undone

    @pytest.mark.parametrize("upgrade", [False, True])
    def test_a_rolled_back_commit_of_an_old_format_is_undone(
        self, sqlite: Properties, upgrade: bool
    ) -> None:
        table = iceberg("sales.orders", catalog=sqlite)
        old = {"format-version": "1"}
        table.catalog().create_table("sales.orders", iceberg_schema(ORDERS), properties=old)
        first = append(table, 1, 1)
        append(table, 2, 2)
        opened(table).table.manage_snapshots().rollback_to_snapshot(int(first)).commit()
        if upgrade:
            with opened(table).table.transaction() as change:
                change.upgrade_table_version(2)
            append(table, 3, 3)
        contained, undone = (opened(table).commit_of(stamp(number).identity) for number in (1, 2))
        assert contained == Found(first, stamp(1))
        assert undone is not None and undone.is_undone

    def test_a_commit_that_was_rolled_back_to_again_is_contained(self, table: IcebergTable) -> None:
        first = append(table, 1, 1)
        second = append(table, 2, 2)
        opened(table).table.manage_snapshots().rollback_to_snapshot(int(first)).commit()
        opened(table).table.manage_snapshots().set_current_snapshot(int(second)).commit()
        assert opened(table).commit_of(stamp(2).identity) == Found(second, stamp(2))

    def test_a_write_can_be_committed_again_once_it_was_undone(self, table: IcebergTable) -> None:
        first = append(table, 1, 1)
        append(table, 2, 2)
        opened(table).table.manage_snapshots().rollback_to_snapshot(int(first)).commit()
        version = append(table, 2, 2, id="other")
        assert ids(table) == [1, 2]
        found = opened(table).commit_of(stamp(2).identity)
        assert found == Found(version, stamp(2, id="other"))

    def test_a_rollback_after_the_look_is_noticed(self, table: IcebergTable) -> None:
        first = append(table, 1, 1)
        late = opened(table)
        files = written(late, orders(2))
        append(table, 2, 2)
        opened(table).table.manage_snapshots().rollback_to_snapshot(int(first)).commit()
        with pytest.raises(CommitConflict):
            late.append(files, stamp(2))
        assert ids(table) == [1]

    def test_a_kept_commit_behind_expired_ones_is_recognized_by_its_files(
        self, table: IcebergTable
    ) -> None:
        first = opened(table)
        [file] = written(first, orders(1))
        kept = msgspec.structs.replace(stamp(1), place=file.path.rpartition("/")[0])
        version = first.append([file], kept)
        opened(table).table.manage_snapshots().create_tag(int(version), "kept").commit()
        second = append(table, 2, 2)
        append(table, 3, 3)
        opened(table).table.maintenance.expire_snapshots().by_id(int(second)).commit()
        assert opened(table).commit_of(kept.identity) == Found(version, kept)

    def test_a_kept_commit_behind_expired_ones_without_files_is_unverified(
        self, table: IcebergTable
    ) -> None:
        version = append(table, 1, 1)
        opened(table).table.manage_snapshots().create_tag(int(version), "kept").commit()
        opened(table).table.overwrite(pa.table({"id": [9], "country": ["FR"]}))
        append(table, 2, 2)
        between = [
            one.snapshot_id
            for one in opened(table).table.snapshots()
            if one.summary is None or one.summary.get("holdfast.stamp") is None
        ]
        opened(table).table.maintenance.expire_snapshots().by_ids(between).commit()
        assert opened(table).commit_of(stamp(1).identity) == Found("", None)

    def test_a_dropped_table_is_no_table(self, table: IcebergTable) -> None:
        late = opened(table)
        files = written(late, orders(1))
        table.catalog().drop_table("sales.orders")
        assert table.open() is None
        with pytest.raises(CommitConflict):
            late.append(files, stamp(1))

    def test_a_table_that_was_created_anew_is_another_one(self, table: IcebergTable) -> None:
        late = opened(table)
        files = written(late, orders(1))
        table.catalog().drop_table("sales.orders")
        created(table)
        with pytest.raises(CommitConflict):
            late.append(files, stamp(1))
        assert ids(table) == []

    def test_an_unreadable_stamp_is_an_error(self, table: IcebergTable) -> None:
        rows = pa.table({"id": [9], "country": ["FR"]})
        opened(table).table.append(rows, snapshot_properties={"holdfast.stamp": "{"})
        with pytest.raises(TableChanged, match="cannot be read"):
            opened(table).newest("loads")

    def test_an_unreadable_number_is_an_error(self, table: IcebergTable) -> None:
        with opened(table).table.transaction() as change:
            change.set_properties({"holdfast.sequence.loads": "many"})
        with pytest.raises(TableChanged, match="is not a number"):
            opened(table).newest("loads")

    def test_a_number_is_known_though_its_property_was_removed(self, table: IcebergTable) -> None:
        append(table, 1, 1)
        with opened(table).table.transaction() as change:
            change.remove_properties("holdfast.sequence.loads")
        assert opened(table).newest("loads") == 1


def local(*fields: int) -> datetime:
    return datetime(*fields)  # type: ignore[arg-type]  # noqa: DTZ001


NESTED = (
    spark.StructType()
    .add("tags", spark.ArrayType(spark.StringType()))
    .add("sizes", spark.MapType(spark.StringType(), spark.IntegerType()))
    .add("at", spark.StructType().add("x", "double").add("y", "double"))
)
EVERY = (
    spark.StructType()
    .add("flag", "boolean")
    .add("whole", "integer")
    .add("long", "long")
    .add("single", "float")
    .add("double", "double")
    .add("price", spark.DecimalType(9, 2))
    .add("wide", spark.DecimalType(38, 10))
    .add("day", "date")
    .add("local", "timestamp_ntz")
    .add("time", "timestamp")
    .add("text", "string")
    .add("content", "binary")
)
EVERY_TYPE = pa.schema(
    {
        "flag": pa.bool_(),
        "whole": pa.int32(),
        "long": pa.int64(),
        "single": pa.float32(),
        "double": pa.float64(),
        "price": pa.decimal128(9, 2),
        "wide": pa.decimal128(38, 10),
        "day": pa.date32(),
        "local": pa.timestamp("us"),
        "time": pa.timestamp("us", "UTC"),
        "text": pa.string(),
        "content": pa.binary(),
    }
)
VALUES = {
    "flag": [True, False],
    "whole": [-(2**31), 2**31 - 1],
    "long": [-(2**63), 2**63 - 1],
    "single": [-1.5, 2.5],
    "double": [-1e300, 1e300],
    "price": [Decimal("-1234567.89"), Decimal("1234567.89")],
    "wide": [Decimal("-9999999999999999999999999999.9999999999"), Decimal("0.0000000001")],
    "day": [date(1, 1, 1), date(9999, 12, 31)],
    "local": [local(1, 1, 1), local(9999, 12, 31, 23, 59, 59, 999999)],
    "time": [datetime(1582, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, tzinfo=UTC)],
    "text": ["", "\U0010ffff" * 20],
    "content": [b"", b"\xff" * 40],
}


def read(table: IcebergTable, rows: str = "") -> list[dict[str, Any]]:
    scan = opened(table).table.scan(rows) if rows else opened(table).table.scan()
    found: list[dict[str, Any]] = scan.to_arrow().to_pylist()
    return found


class TestColumns:
    def test_the_columns_are_those_that_the_table_was_created_with(
        self, sqlite: Properties
    ) -> None:
        columns = spark.StructType([*EVERY, *NESTED])
        required = spark.StructType([*columns]).add("id", "long", nullable=False)
        table = created(iceberg("sales.orders", catalog=sqlite), required)
        assert opened(table).schema == columns.add("id", "long")

    def test_smaller_integers_become_integers(self, sqlite: Properties) -> None:
        small = spark.StructType().add("a", "byte").add("b", "short")
        table = created(iceberg("sales.orders", catalog=sqlite), small)
        assert opened(table).schema == spark.StructType().add("a", "integer").add("b", "integer")

    def test_a_type_that_iceberg_does_not_have_is_refused(self, sqlite: Properties) -> None:
        column = spark.StructType().add("pause", spark.DayTimeIntervalType())
        with pytest.raises(InvalidInput, match="`pause` is of type interval"):
            created(iceberg("sales.orders", catalog=sqlite), column)

    def test_values_of_every_type_are_read_back(self, sqlite: Properties) -> None:
        table = created(iceberg("sales.orders", catalog=sqlite), EVERY)
        now = opened(table)
        rows = pa.table(VALUES, schema=EVERY_TYPE)
        for integers in (True, False):
            file = write_file(
                now, f"data/{integers}.parquet", rows, store_decimal_as_integer=integers
            )
            now.append([file], stamp(1 + integers, sequence=f"loads-{integers}"))
            now = opened(table)
        assert read(table) == rows.to_pylist() * 2

    @pytest.mark.parametrize("column", EVERY.names)
    def test_a_filter_finds_the_same_rows_as_a_full_read(
        self, sqlite: Properties, column: str
    ) -> None:
        from pyiceberg.expressions import EqualTo, GreaterThanOrEqual, LessThanOrEqual

        table = created(iceberg("sales.orders", catalog=sqlite), EVERY)
        now = opened(table)
        rows = pa.table(VALUES, schema=EVERY_TYPE)
        now.append([write_file(now, "data/1.parquet", rows, group=1)], stamp(1))
        for value in VALUES[column]:
            for condition in (EqualTo, GreaterThanOrEqual, LessThanOrEqual):
                given = value.isoformat() if isinstance(value, date) else value
                expected = {
                    EqualTo: [one for one in rows.to_pylist() if one[column] == value],
                    GreaterThanOrEqual: [one for one in rows.to_pylist() if one[column] >= value],
                    LessThanOrEqual: [one for one in rows.to_pylist() if one[column] <= value],
                }[condition]
                scan = opened(table).table.scan(condition(column, given))
                assert scan.to_arrow().to_pylist() == expected

    def test_nested_columns_are_read_back(self, sqlite: Properties) -> None:
        table = created(iceberg("sales.orders", catalog=sqlite), NESTED)
        now = opened(table)
        kinds = {
            "tags": pa.list_(pa.string()),
            "sizes": pa.map_(pa.string(), pa.int32()),
            "at": pa.struct({"x": pa.float64(), "y": pa.float64()}),
        }
        values = {
            "tags": [["a", None], [], None],
            "sizes": [[("a", 1)], [], None],
            "at": [{"x": 1.0, "y": None}, {"x": None, "y": None}, None],
        }
        rows = pa.table(values, schema=pa.schema(kinds))
        now.append([write_file(now, "data/1.parquet", rows)], stamp(1))
        assert read(table) == rows.to_pylist()

    @pytest.mark.parametrize("name", ["order id", "a.b", "größe", "select", "_1", "x" * 200])
    def test_columns_of_any_name_are_read_back(self, sqlite: Properties, name: str) -> None:
        table = created(
            iceberg("sales.orders", catalog=sqlite), spark.StructType().add(name, "long")
        )
        now = opened(table)
        now.append([write_file(now, "data/1.parquet", pa.table({name: [1]}))], stamp(1))
        assert read(table) == [{name: 1}]

    def test_files_of_a_renamed_column_are_read(self, table: IcebergTable) -> None:
        append(table, 1, 1)
        with opened(table).table.update_schema() as change:
            change.rename_column("country", "land")
        now = opened(table)
        rows = pa.table({"id": [2], "land": ["FR"]})
        now.append([write_file(now, "data/2.parquet", rows)], stamp(2))
        assert sorted(row["land"] for row in read(table)) == ["DE", "FR"]

    def test_columns_are_added_once_by_several_at_once(self, table: IcebergTable) -> None:
        added = spark.StructType().add("note", "string").add("tags", NESTED["tags"].dataType)
        first, second = opened(table), opened(table)
        first.add_columns(added)
        with pytest.raises(CommitConflict):
            second.add_columns(added)
        opened(table).add_columns(added)
        assert opened(table).schema == spark.StructType([*ORDERS, *added])

    def test_rows_before_and_after_a_column_was_added_are_read(self, table: IcebergTable) -> None:
        append(table, 1, 1)
        opened(table).add_columns(spark.StructType().add("note", "string"))
        now = opened(table)
        rows = pa.table({"id": [2], "country": ["FR"], "note": ["new"]})
        now.append([write_file(now, "data/2.parquet", rows)], stamp(2))
        assert {row["id"]: row["note"] for row in read(table)} == {1: None, 2: "new"}

    def test_columns_that_change_after_the_look_are_a_conflict(self, table: IcebergTable) -> None:
        late = opened(table)
        files = written(late, orders(1))
        opened(table).add_columns(spark.StructType().add("note", "string"))
        with pytest.raises(CommitConflict):
            late.append(files, stamp(1))

    def test_a_partitioning_that_changes_after_the_look_is_a_conflict(
        self, table: IcebergTable
    ) -> None:
        late = opened(table)
        files = written(late, orders(1))
        with opened(table).table.update_spec() as change:
            change.add_identity("country")
        with pytest.raises(CommitConflict):
            late.append(files, stamp(1))
        with pytest.raises(TableChanged, match="0 partition values, and the table has 1"):
            opened(table).append(files, stamp(1))

    def test_a_name_mapping_without_a_column_is_refused(self, table: IcebergTable) -> None:
        mapping = '[{"names":["id"],"field-id":1}]'
        with opened(table).table.transaction() as change:
            change.set_properties({"schema.name-mapping.default": mapping})
        with pytest.raises(NotSupported, match="does not have the column `country` as field 2"):
            append(table, 1, 1)

    @pytest.mark.parametrize(
        ("rows", "reason"),
        [
            ({"id": [1], "country": ["DE"], "more": [1]}, "`more` is not in the table"),
            ({"id": ["1"], "country": ["DE"]}, "`id` is string, and long in the table"),
            ({"id": [1.0], "country": ["DE"]}, "`id` is double, and long in the table"),
        ],
    )
    def test_files_that_do_not_fit_are_refused(
        self, table: IcebergTable, rows: dict[str, Any], reason: str
    ) -> None:
        now = opened(table)
        with pytest.raises(TableChanged, match=reason):
            now.append([write_file(now, "data/1.parquet", pa.table(rows))], stamp(1))
        assert ids(table) == []

    def test_times_in_a_form_that_readers_misread_are_refused(self, sqlite: Properties) -> None:
        table = created(
            iceberg("sales.orders", catalog=sqlite), spark.StructType().add("at", "timestamp")
        )
        now = opened(table)
        rows = pa.table({"at": pa.array([local(2026, 1, 1)], pa.timestamp("us"))})
        for how in ({}, {"use_deprecated_int96_timestamps": True, "coerce_timestamps": None}):
            with pytest.raises(TableChanged, match="`at` is timestamp"):
                now.append([write_file(now, f"data/{len(how)}.parquet", rows, **how)], stamp(1))

    def test_files_with_the_ids_of_another_table_are_refused(self, table: IcebergTable) -> None:
        now = opened(table)
        fields = [
            pa.field(name, kind, metadata={"PARQUET:field_id": id})
            for name, kind, id in (("id", pa.int64(), "2"), ("country", pa.string(), "1"))
        ]
        rows = pa.table({"id": [1], "country": ["DE"]}, schema=pa.schema(fields))
        with pytest.raises(TableChanged, match="`id` has the id b'2'"):
            now.append([write_file(now, "data/1.parquet", rows)], stamp(1))

    def test_files_with_the_ids_of_the_table_need_no_name_mapping(
        self, table: IcebergTable
    ) -> None:
        now = opened(table)
        fields = [
            pa.field(name, kind, metadata={"PARQUET:field_id": id})
            for name, kind, id in (("id", pa.int64(), "1"), ("country", pa.string(), "2"))
        ]
        rows = pa.table({"id": [1], "country": ["DE"]}, schema=pa.schema(fields))
        now.append([write_file(now, "data/1.parquet", rows)], stamp(1))
        assert "schema.name-mapping.default" not in opened(table).table.properties
        assert ids(table) == [1]

    def test_a_null_in_a_required_column_is_refused(self, sqlite: Properties) -> None:
        table = iceberg("sales.orders", catalog=sqlite)
        required = spark.StructType().add("id", "long", nullable=False)
        table.catalog().create_table("sales.orders", iceberg_schema(required))
        now = opened(table)
        assert now.schema == required
        rows = pa.table({"id": pa.array([1, None], pa.int64())})
        with pytest.raises(TableChanged, match="`id` has nulls"):
            now.append([write_file(now, "data/1.parquet", rows)], stamp(1))


class TestStatistics:
    def bounds(self, table: IcebergTable) -> tuple[Any, Any]:
        [file] = opened(table).table.inspect.files().to_pylist()
        [metrics] = file["readable_metrics"].values()
        return metrics["lower_bound"], metrics["upper_bound"]

    def table(self, sqlite: Properties, kind: str) -> IcebergTable:
        column = spark.StructType().add("value", kind)
        return created(iceberg("sales.orders", catalog=sqlite), column)

    def committed(self, table: IcebergTable, values: list[Any], kind: Any, **how: Any) -> None:
        now = opened(table)
        rows = pa.table({"value": pa.array(values, kind)})
        now.append([write_file(now, "data/1.parquet", rows, **how)], stamp(1))

    def test_bounds_span_all_row_groups(self, sqlite: Properties) -> None:
        table = self.table(sqlite, "long")
        self.committed(table, [5, None, -3, 9], pa.int64(), group=1)
        assert self.bounds(table) == (-3, 9)

    def test_a_row_group_without_bounds_leaves_the_column_without_them(
        self, sqlite: Properties
    ) -> None:
        table = self.table(sqlite, "double")
        self.committed(table, [float("nan"), 5.0], pa.float64(), group=1)
        assert self.bounds(table) == (None, None)

    def test_a_file_without_statistics_has_no_bounds(self, sqlite: Properties) -> None:
        table = self.table(sqlite, "long")
        self.committed(table, [1, 2], pa.int64(), write_statistics=False)
        assert self.bounds(table) == (None, None)

    def test_zero_is_between_its_signs(self, sqlite: Properties) -> None:
        table = self.table(sqlite, "double")
        self.committed(table, [0.0, -0.0], pa.float64())
        assert [str(bound) for bound in self.bounds(table)] == ["-0.0", "0.0"]

    def test_long_text_has_short_bounds(self, sqlite: Properties) -> None:
        table = self.table(sqlite, "string")
        self.committed(table, ["a" * 50, "b" * 50], pa.string())
        assert self.bounds(table) == ("a" * 16, "b" * 15 + "c")

    def test_text_without_a_higher_one_has_no_upper_bound(self, sqlite: Properties) -> None:
        table = self.table(sqlite, "string")
        self.committed(table, ["\U0010ffff" * 20, "\ud7ff" * 20], pa.string())
        assert self.bounds(table)[1] is None

    def test_values_are_counted(self, sqlite: Properties) -> None:
        table = self.table(sqlite, "long")
        self.committed(table, [5, None, -3, 9], pa.int64(), group=1)
        [file] = opened(table).table.inspect.files().to_pylist()
        assert file["record_count"] == 4
        assert file["value_counts"] == [(1, 4)]
        assert file["null_value_counts"] == [(1, 1)]
        assert len(file["split_offsets"]) == 4


class TestPartitions:
    @pytest.mark.parametrize(
        ("kind", "arrow", "value"),
        [
            ("string", pa.string(), "a/b=c %2F ü\n"),
            ("string", pa.string(), ""),
            ("string", pa.string(), None),
            ("long", pa.int64(), -5),
            ("boolean", pa.bool_(), False),
            ("date", pa.date32(), date(1969, 12, 31)),
            ("date", pa.date32(), date(1, 1, 1)),
            ("timestamp_ntz", pa.timestamp("us"), local(1582, 10, 4, 1, 2, 3, 4)),
            ("timestamp", pa.timestamp("us", "UTC"), datetime(1960, 1, 1, 1, 2, 3, 4, UTC)),
            ("decimal", pa.decimal128(10, 2), Decimal("-1.50")),
        ],
    )
    def test_a_partition_of_any_value_is_read_back(
        self, sqlite: Properties, kind: str, arrow: Any, value: Any
    ) -> None:
        data_type = spark.DecimalType(10, 2) if kind == "decimal" else kind
        columns = spark.StructType().add("id", "long").add("part", data_type)
        table = created(iceberg("sales.orders", catalog=sqlite), columns, PartitionColumn("part"))
        now = opened(table)
        rows = pa.table({"id": [1], "part": pa.array([value], arrow)})
        text = (partition_text(value),)
        now.append([write_file(now, "data/1.parquet", rows, text)], stamp(1))
        [partition] = opened(table).table.inspect.partitions().to_pylist()
        assert partition["partition"] == {"part": value}
        assert read(table) == rows.to_pylist()
        assert opened(table).partition_by == (PartitionColumn("part"),)

    def test_only_the_files_of_a_partition_are_read(self, sqlite: Properties) -> None:
        table = created(iceberg("sales.orders", catalog=sqlite), ORDERS, PartitionColumn("country"))
        now = opened(table)
        files = [
            *written(now, orders(1), partition=("DE",)),
            *written(now, orders(2, country="FR"), partition=("FR",)),
            *written(now, orders(3, country=None), partition=(None,)),
        ]
        now.append(files, stamp(1))
        planned = opened(table).table.scan("country = 'FR'").plan_files()
        assert len(list(planned)) == 1
        assert [row["id"] for row in read(table, "country = 'FR'")] == [2]
        assert [row["id"] for row in read(table, "country IS NULL")] == [3]

    def test_partitions_that_were_dropped_stay_empty(self, sqlite: Properties) -> None:
        table = created(iceberg("sales.orders", catalog=sqlite), ORDERS, PartitionColumn("country"))
        with opened(table).table.transaction() as change:
            change.set_properties({"format-version": "2"})
        with opened(table).table.update_spec() as change:
            change.remove_field("country")
        assert opened(table).partition_by == ()
        append(table, 1, 1)
        assert ids(table) == [1]

    @pytest.mark.parametrize(
        ("partition_by", "error", "message"),
        [
            ("land", InvalidInput, "`land`, which is not a column"),
            ("day(id)", InvalidInput, "day of `id`, which is of type long"),
            ("weight", InvalidInput, "identity of `weight`, which is of type double"),
            ("bucket(4, id)", NotSupported, r"bucket\[4\] of `id` is not supported"),
            ("sometimes(id)", InvalidInput, "sometimes of `id` is not supported"),
        ],
    )
    def test_a_partitioning_that_is_not_supported_is_refused(
        self, sqlite: Properties, partition_by: str, error: type[HoldfastError], message: str
    ) -> None:
        table = iceberg("sales.orders", catalog=sqlite, create=True, partition_by=partition_by)
        assert table.partition_by is not None
        columns = spark.StructType([*ORDERS]).add("weight", "double").add("at", "timestamp")
        with pytest.raises(error, match=message):
            table.create(columns, table.partition_by)
        assert table.open() is None

    def test_a_table_with_partitions_of_doubles_is_not_appendable(self, sqlite: Properties) -> None:
        columns = spark.StructType().add("weight", "double")
        table = created(iceberg("sales.orders", catalog=sqlite), columns)
        with opened(table).table.update_spec() as change:
            change.add_identity("weight")
        with pytest.raises(NotSupported, match="partitioned by `weight`, which is of the type"):
            opened(table).check_appendable()

    def test_a_table_with_buckets_is_not_appendable(self, table: IcebergTable) -> None:
        from pyiceberg.transforms import BucketTransform

        with opened(table).table.update_spec() as change:
            change.add_field("id", BucketTransform(4), "bucket")
        with pytest.raises(NotSupported, match=r"bucket\[4\] of `id`"):
            opened(table).check_appendable()


class TestBadInput:
    def test_an_unknown_catalog_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(InvalidInput, match="the catalog `nope` is not in PyIceberg's"):
            iceberg("sales.orders", catalog="nope").open()

    def test_an_unknown_namespace_is_named(self, catalog: Properties) -> None:
        table = iceberg("nope.orders", catalog=catalog)
        assert table.open() is None
        with pytest.raises(InvalidInput, match="has no namespace `nope`") as raised:
            table.create(ORDERS, ())
        assert "it has sales" in raised.value.hint

    @pytest.mark.parametrize(
        "uri", ["postgresql+psycopg://me:secret@127.0.0.1:{}/x", "http://127.0.0.1:{}"]
    )
    def test_a_catalog_that_is_away_is_unavailable(self, uri: str) -> None:
        properties = {"uri": uri.format(free_port())}
        with pytest.raises(StoreUnavailable, match="the catalog does not answer") as raised:
            iceberg("sales.orders", catalog=properties).open()
        assert "secret" not in str(raised.value)

    @pytest.mark.parametrize(
        ("status", "error"),
        [(401, Forbidden), (403, Forbidden), (429, StoreUnavailable), (503, StoreUnavailable)],
    )
    def test_a_catalog_that_refuses_is_an_error(
        self, server: RestCatalogServer, status: int, error: type[HoldfastError]
    ) -> None:
        table = created(iceberg("sales.orders", catalog={"uri": server.url}))
        now = opened(table)
        server.refusal = status
        with pytest.raises(error, match="cannot read the Iceberg table sales.orders"):
            table.open()
        with pytest.raises(error, match="cannot open the catalog `default`"):
            iceberg("sales.orders", catalog={"uri": server.url}).open()
        with pytest.raises(UnknownOutcome):
            now.append(written(now, orders(1)), stamp(1))
        server.refusal = 0
        assert ids(table) == []

    def test_a_catalog_that_goes_away_is_unavailable(self, sqlite: Properties) -> None:
        given = {key: value for key, value in sqlite.items() if key != "name"}
        with rest_catalog(load_catalog("prod", **given)) as server:
            table = created(iceberg("sales.orders", catalog={"uri": server.url}))
            now = opened(table)
            files = written(now, orders(1))
        with pytest.raises(UnknownOutcome):
            now.append(files, stamp(1))
        with pytest.raises(StoreUnavailable):
            table.open()

    @pytest.mark.parametrize(
        "properties",
        [
            {"uri": "nothing://here"},
            {"type": "sql"},
            {"type": "nothing", "uri": "sqlite://"},
            {"warehouse": "file:///lake"},
        ],
    )
    def test_properties_that_no_catalog_has_are_refused(self, properties: Properties) -> None:
        with pytest.raises(InvalidInput, match="the properties of the catalog `default`"):
            iceberg("sales.orders", catalog=properties).open()

    def test_a_catalog_without_a_warehouse_cannot_create(self, tmp_path: Path) -> None:
        properties = with_namespace({"uri": f"sqlite:///{tmp_path}/catalog.db"})
        with pytest.raises(InvalidInput, match="cannot be created: No default path") as raised:
            iceberg("sales.orders", catalog=properties).create(ORDERS, ())
        assert "warehouse" in raised.value.hint

    def test_a_package_that_a_catalog_needs_is_named(self) -> None:
        properties = {"type": "hive", "uri": "thrift://127.0.0.1:1"}
        with pytest.raises(MissingDependency, match=r"pyiceberg\[hive\]"):
            iceberg("sales.orders", catalog=properties).open()

    def test_pyiceberg_is_named_where_it_is_missing(
        self, sqlite: Properties, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = iceberg("sales.orders", catalog=sqlite)
        ours = [one for one in sys.modules if one.rpartition(".")[2].startswith("iceberg_")]
        for name in ours:
            monkeypatch.delitem(sys.modules, name)
        for name in [one for one in sys.modules if one.partition(".")[0] == "pyiceberg"]:
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingDependency, match="needs the package pyiceberg"):
            table.open()

    @pytest.mark.parametrize("identifier", ["orders", "sales.", ".orders", "sales..orders", ""])
    def test_an_identifier_needs_namespace_and_name(self, identifier: str) -> None:
        with pytest.raises(InvalidInput, match="without a namespace and a name"):
            iceberg(identifier, catalog="prod")

    @pytest.mark.parametrize("catalog", ["", None, {}, 5])
    def test_a_catalog_is_a_name_or_a_mapping(self, catalog: Any) -> None:
        with pytest.raises(InvalidType, match="catalog is"):
            iceberg("sales.orders", catalog=catalog)

    @pytest.mark.parametrize("partition_by", [5, [5], [""], {"day": 1}])
    def test_a_partitioning_is_the_names_of_columns(self, partition_by: Any) -> None:
        with pytest.raises(InvalidType, match="partition_by"):
            iceberg("sales.orders", catalog="prod", partition_by=partition_by)

    def test_a_version_that_pyiceberg_does_not_write_is_refused(self, sqlite: Properties) -> None:
        table = created(iceberg("sales.orders", catalog=sqlite))
        metadata = Path(opened(table).table.metadata_location.removeprefix("file://"))
        newer = json.loads(metadata.read_text()) | {"format-version": 3, "next-row-id": 0}
        metadata.write_text(json.dumps(newer))
        with pytest.raises(NotSupported, match="has version 3 of Iceberg's format"):
            opened(table).check_appendable()

    def test_metadata_that_is_gone_is_an_error(self, table: IcebergTable) -> None:
        os.unlink(opened(table).table.metadata_location.removeprefix("file://"))
        with pytest.raises(TableChanged, match="the metadata of .* is gone"):
            table.open()

    def test_a_place_that_cannot_be_written_leaves_the_table_unchanged(
        self, table: IcebergTable
    ) -> None:
        now = opened(table)
        files = written(now, orders(1))
        place = Path(now.storage.location, "metadata")
        place.rename(place.with_name("elsewhere"))
        place.write_text("no directory")
        with pytest.raises(HoldfastError, match="cannot write the metadata of"):
            now.append(files, stamp(1))
        place.unlink()
        place.with_name("elsewhere").rename(place)
        assert ids(table) == []


class TestCreation:
    def test_a_table_that_eight_create_at_once_is_one(self, catalog: Properties) -> None:
        barrier = Barrier(8)

        def create(number: int) -> Any:
            table = iceberg("sales.orders", catalog=catalog)
            table.catalog()
            barrier.wait()
            return table.create(ORDERS, ()).table.metadata.table_uuid

        assert len(set(concurrently(8, create))) == 1

    def test_a_catalog_of_the_configuration_is_found_by_its_name(
        self, sqlite: Properties, tmp_path: Path
    ) -> None:
        config = "\n".join(f"    {key}: {value}" for key, value in sqlite.items() if key != "name")
        Path(tmp_path, ".pyiceberg.yaml").write_text(f"catalog:\n  prod:\n{config}\n")
        code = (
            "from holdfast.spark.lake.iceberg import iceberg\n"
            "table = iceberg('sales.orders', catalog='prod')\n"
            "print(table.catalog().list_namespaces(), table.name)"
        )
        ran = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYICEBERG_HOME": str(tmp_path)},
            check=True,
            capture_output=True,
            text=True,
        )
        assert ran.stdout == ("[('sales',)] the Iceberg table sales.orders of the catalog `prod`\n")

    def test_a_table_is_pickled_without_its_connection(self, table: IcebergTable) -> None:
        append(table, 1, 1)
        copy = pickle.loads(pickle.dumps(table))
        assert ids(copy) == [1]
        assert copy.name == table.name

    def test_a_relative_path_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        properties = with_namespace({"uri": "sqlite:///catalog.db", "warehouse": "lake"})
        with pytest.raises(InvalidInput, match="is not an absolute path"):
            iceberg("sales.orders", catalog=properties).create(ORDERS, ())

    @pytest.mark.parametrize("scheme", ["", "file:", "file://"])
    def test_a_table_is_at_the_path_that_its_url_shows(self, tmp_path: Path, scheme: str) -> None:
        warehouse = f"{scheme}{tmp_path}/a b%20ü"
        properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": warehouse}
        table = created(iceberg("sales.orders", catalog=with_namespace(properties)))
        append(table, 1, 1)
        assert ids(table) == [1]
        assert opened(table).storage == Storage(f"{tmp_path}/a b%20ü/sales/orders", {})

    def test_a_path_that_the_library_misreads_is_refused(self, tmp_path: Path) -> None:
        properties = {
            "uri": f"sqlite:///{tmp_path}/catalog.db",
            "warehouse": f"file://{tmp_path}/a#b",
        }
        table = iceberg("sales.orders", catalog=with_namespace(properties))
        with pytest.raises(InvalidInput, match="with a query or a fragment"):
            created(table)

    def test_the_configuration_of_storage_is_passed_on_to_executors(self, tmp_path: Path) -> None:
        with object_server() as server:
            properties = with_namespace(
                {
                    "uri": f"sqlite:///{tmp_path}/catalog.db",
                    "warehouse": server.make_bucket(),
                    "s3.endpoint": server.endpoint,
                    "client.access-key-id": "testing",
                    "client.secret-access-key": "testing-secret",
                    "client.region": "us-east-1",
                }
            )
            now = created(iceberg("sales.orders", catalog=properties)).open()
            assert now is not None
            assert now.storage == Storage(
                f"{properties['warehouse']}/sales/orders",
                {
                    "aws_endpoint_url": server.endpoint,
                    "aws_access_key_id": "testing",
                    "aws_secret_access_key": "testing-secret",
                    "aws_region": "us-east-1",
                },
            )


def test_two_columns_that_iceberg_calls_the_same_are_an_error() -> None:
    columns = spark.StructType().add("a.b", "long").add("a", spark.StructType().add("b", "long"))

    with pytest.raises(InvalidInput, match=r"multiple fields for name a\.b"):
        iceberg_schema(columns)
