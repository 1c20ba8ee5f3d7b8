"""Loads of what was appended to a Delta or Iceberg table, on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pytest
from appending import STEPS, disturb
from deltalake import DeltaTable, write_deltalake
from loading import connection
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession
from readers import by_library, in_order

from holdfast import Connection
from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import CheckFailed, InvalidInput, InvalidType, SourceChanged, TableChanged
from holdfast.spark import delta, iceberg, incremental, portions, read_loads, read_table
from holdfast.spark.lake.delta import DeltaLake
from holdfast.spark.lake.iceberg import IcebergTable
from holdfast.spark.lake.table import LakeTable
from holdfast.spark.loads import table_versions
from holdfast.spark.loads.load import Load


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Connection]:
    with connection(tmp_path) as opened:
        opened.asset_store(name="orders", declare=True)
        yield opened


@pytest.fixture
def orders(store: Connection, local_spark: SparkSession) -> AssetStore:
    return store.asset_store(name="orders")


def rows(*ids: int) -> pa.Table:
    odd = pa.array([str(id % 2) for id in ids], pa.string())
    return pa.table({"id": pa.array(ids, pa.int64()), "odd": odd})


def append(table: LakeTable, *ids: int) -> None:
    if isinstance(table, DeltaLake):
        write_deltalake(table.location, rows(*ids), mode="append", partition_by=["odd"])
    else:
        assert isinstance(table, IcebergTable)
        table.catalog().load_table(table.identifier).append(rows(*ids))


def delete(table: LakeTable, id: int) -> None:
    if isinstance(table, DeltaLake):
        DeltaTable(table.location).delete(f"id = {id}")
    else:
        assert isinstance(table, IcebergTable)
        table.catalog().load_table(table.identifier).delete(f"id = {id}")


def new_delta(directory: Path) -> DeltaLake:
    return delta(directory / "raw")


def new_iceberg(directory: Path) -> IcebergTable:
    (directory / "warehouse").mkdir()
    uri = f"sqlite:///{directory}/catalog.db"
    where = {"type": "sql", "uri": uri, "warehouse": f"file://{directory}/warehouse"}
    table = iceberg("sales.raw", catalog=where)
    table.catalog().create_namespace("sales")
    table.catalog().create_table("sales.raw", rows().schema)
    return table


@pytest.fixture(params=[new_delta, new_iceberg], ids=["delta", "iceberg"])
def raw(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    table: LakeTable = request.param(tmp_path)
    append(table, 1, 2)
    return table


def ids(df: DataFrame) -> list[int]:
    return sorted(row.id for row in df.collect())


class Parts:
    """The rows that loads have written, by the name of the load."""

    def __init__(self) -> None:
        self.found: dict[str, list[int]] = {}

    def writer(self, new: Load) -> Callable[[DataFrame], None]:
        def write(df: DataFrame) -> None:
            self.found[new.name] = ids(df)

        return write

    def load(self, new: Load) -> int | None:
        return new.write(self.writer(new)).rows


def test_each_load_has_what_was_appended_since_the_last_one(
    raw: LakeTable, orders: AssetStore
) -> None:
    first = incremental(raw, orders)
    assert ids(first.df) == [1, 2]
    assert first.write(ids).rows == 2
    append(raw, 3, 4)
    append(raw, 5)
    second = incremental(raw, orders)
    assert second.watermark == first.end
    assert ids(second.df) == [3, 4, 5]
    assert second.write(ids).rows == 3
    third = incremental(raw, orders)
    assert third.write(ids).rows == 0
    assert third.end == second.end


def test_the_watermark_is_the_version_and_the_table(raw: LakeTable, orders: AssetStore) -> None:
    incremental(raw, orders).write(ids)
    opened = raw.open()
    assert opened is not None
    stored = orders.get("watermark")
    assert stored["type"] == "version"
    assert str(stored["value"]) == opened.version
    assert len(stored["table"]["id"]) == 36
    assert incremental(raw, orders).watermark == int(opened.version)


def test_loads_are_saved_and_read_like_others(
    raw: LakeTable, orders: AssetStore, local_spark: SparkSession, tmp_path: Path
) -> None:
    target = str(tmp_path / "target")
    incremental(raw, orders).save(target)
    append(raw, 3)
    incremental(raw, orders).save(target)
    assert ids(read_loads(local_spark, orders, target)) == [1, 2, 3]


def test_loads_are_appended_to_another_table(
    raw: LakeTable, orders: AssetStore, tmp_path: Path
) -> None:
    target = delta(tmp_path / "copy", create=True)
    incremental(raw, orders).append(target)
    append(raw, 3)
    assert incremental(raw, orders).append(target).rows == 1
    assert incremental(raw, orders).append(target).rows == 0
    assert [row["id"] for row in in_order(by_library(target))] == [1, 2, 3]


def test_a_statement_writes_the_new_rows(
    raw: LakeTable, orders: AssetStore, local_spark: SparkSession, tmp_path: Path
) -> None:
    statement = f"INSERT OVERWRITE DIRECTORY '{tmp_path}/sql' USING parquet SELECT * FROM {{new}}"
    assert incremental(raw, orders).sql(statement).rows == 2
    assert ids(local_spark.read.parquet(f"{tmp_path}/sql")) == [1, 2]


def test_a_retry_has_the_rows_of_the_attempt_that_failed(
    raw: LakeTable, orders: AssetStore
) -> None:
    def failing(df: DataFrame) -> None:
        raise RuntimeError(f"after {df.count()} rows")

    with pytest.raises(RuntimeError, match="after 2 rows"):
        incremental(raw, orders).write(failing)
    append(raw, 3)
    parts = Parts()
    assert parts.load(incremental(raw, orders)) == 2
    assert parts.load(incremental(raw, orders)) == 1
    assert [*parts.found.values()] == [[1, 2], [3]]


def test_a_retry_has_the_same_rows_after_the_table_was_changed(
    raw: LakeTable, orders: AssetStore
) -> None:
    incremental(raw, orders).write(ids)
    append(raw, 3)
    with pytest.raises(ZeroDivisionError):
        incremental(raw, orders).write(lambda df: 1 // 0)
    delete(raw, 1)
    retried = incremental(raw, orders)
    assert ids(retried.df) == [3]
    retried.write(ids)
    with pytest.raises(TableChanged, match="changed or removed rows"):
        incremental(raw, orders)


def test_a_change_of_rows_leaves_the_watermark(raw: LakeTable, orders: AssetStore) -> None:
    incremental(raw, orders).write(ids)
    before = orders.get("watermark")
    delete(raw, 1)
    with pytest.raises(TableChanged, match='changed or removed rows\nhint: on_change="reload"'):
        incremental(raw, orders)
    assert orders.get("watermark") == before


def test_a_reload_replaces_what_was_loaded(
    raw: LakeTable, orders: AssetStore, local_spark: SparkSession, tmp_path: Path
) -> None:
    target = str(tmp_path / "target")
    incremental(raw, orders).save(target)
    append(raw, 3)
    incremental(raw, orders).save(target)
    before = orders.entry("watermark")
    assert before is not None
    delete(raw, 1)
    new = incremental(raw, orders, on_change="reload")
    assert new.is_reload
    with pytest.raises(InvalidInput, match="would duplicate rows"):
        new.append(delta(tmp_path / "copy", create=True))
    assert new.save(target).rows == 2
    append(raw, 4)
    later = incremental(raw, orders, on_change="reload")
    assert not later.is_reload
    assert later.save(target).rows == 1
    assert ids(read_loads(local_spark, orders, target)) == [2, 3, 4]
    orders.rewind("watermark", version=before.version)
    assert ids(read_loads(local_spark, orders, target)) == [1, 2, 3]


def test_a_retry_of_a_reload_is_a_reload(raw: LakeTable, orders: AssetStore) -> None:
    incremental(raw, orders).write(ids)
    delete(raw, 1)
    with pytest.raises(ZeroDivisionError):
        incremental(raw, orders, on_change="reload").write(lambda df: 1 // 0)
    append(raw, 5)
    retried = incremental(raw, orders)
    assert retried.is_reload
    assert ids(retried.df) == [2]


def test_a_rewind_loads_again_what_was_appended_since(raw: LakeTable, orders: AssetStore) -> None:
    incremental(raw, orders).write(ids)
    first = orders.entry("watermark")
    assert first is not None
    append(raw, 3)
    incremental(raw, orders).write(ids)
    orders.rewind("watermark", version=first.version)
    append(raw, 4)
    assert ids(incremental(raw, orders).df) == [3, 4]


def test_until_ends_a_load_at_a_version(raw: LakeTable, orders: AssetStore) -> None:
    append(raw, 3)
    opened = raw.open()
    assert opened is not None
    middle = int(opened.version)
    append(raw, 4)
    new = incremental(raw, orders, until=middle)
    assert (new.end, ids(new.df)) == (middle, [1, 2, 3])
    new.write(ids)
    assert incremental(raw, orders, until=middle).rows == 0
    assert ids(incremental(raw, orders).df) == [4]


def test_portions_end_with_commits(raw: LakeTable, orders: AssetStore) -> None:
    parts = Parts()
    for new in portions(raw, orders, max_rows=2):
        parts.load(new)
    for id in range(10, 15):
        append(raw, id)
    for new in portions(raw, orders, max_rows=2):
        parts.load(new)
    assert [*parts.found.values()] == [[1, 2], [10, 11], [12, 13], [14]]


def test_rows_are_checked_and_set_aside(
    raw: LakeTable, orders: AssetStore, local_spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(CheckFailed, match="range"):
        incremental(raw, orders, expect={"range": {"id": (2, 9)}})
    with pytest.raises(CheckFailed, match="rows"):
        incremental(raw, orders, expect={"rows": (3, None)})
    bad = tmp_path / "bad"
    new = incremental(raw, orders, expect={"range": {"id": (2, 9)}}, quarantine=bad)
    result = new.save(str(tmp_path / "good"))
    assert (result.rows, result.quarantined) == (1, 1)
    assert ids(read_loads(local_spark, orders, str(bad))) == [1]


def test_a_contract_fails_a_load_of_other_columns(tmp_path: Path, orders: AssetStore) -> None:
    raw = new_delta(tmp_path)
    append(raw, 1)
    incremental(raw, orders, contract="fail").write(ids)
    wider = rows(2).append_column("more", pa.array(["x"]))
    write_deltalake(raw.location, wider, mode="append", schema_mode="merge")
    with pytest.raises(SourceChanged, match="`more`"):
        incremental(raw, orders, contract="fail")


def test_a_compacted_table_moves_the_watermark_without_rows(
    tmp_path: Path, orders: AssetStore
) -> None:
    raw = new_delta(tmp_path)
    append(raw, 1)
    append(raw, 3)
    incremental(raw, orders).write(ids)
    DeltaTable(raw.location).optimize.compact()
    new = incremental(raw, orders)
    assert (new.rows, new.watermark, new.end) == (0, 1, 2)
    new.write(ids)
    assert orders.get("watermark")["value"] == 2


def test_a_watermark_of_a_column_is_not_a_version(
    raw: LakeTable, orders: AssetStore, local_spark: SparkSession
) -> None:
    incremental(local_spark.range(3), orders, cursor="id").write(ids)
    with pytest.raises(InvalidInput, match="for the cursor `id` of the type integer"):
        incremental(raw, orders)


def test_a_watermark_can_be_set_to_a_version(tmp_path: Path, orders: AssetStore) -> None:
    raw = new_delta(tmp_path)
    append(raw, 1)
    append(raw, 2)
    orders.set("watermark", {"cursor": "delta", "type": "version", "value": 0})
    assert ids(incremental(raw, orders).df) == [2]


def test_a_table_without_rows_is_loaded_as_soon_as_it_has_some(
    tmp_path: Path, orders: AssetStore
) -> None:
    raw = new_iceberg(tmp_path)
    new = incremental(raw, orders)
    assert (new.rows, new.end) == (0, None)
    assert new.write(ids).rows == 0
    append(raw, 1)
    assert ids(incremental(raw, orders).df) == [1]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"cursor": "id"}, InvalidInput, "cursor is given"),
        ({"lag": 1}, InvalidInput, "lag is given"),
        ({"end_value": 3}, InvalidInput, "end_value is given"),
        ({"primary_key": "id"}, InvalidInput, "primary_key is given"),
        ({"until": 99}, InvalidInput, "99"),
        ({"until": "x"}, InvalidType, "until is 'x'"),
        ({"on_change": "skip"}, InvalidInput, "on_change is 'skip'"),
        ({"max_rows": 0}, InvalidInput, "max_rows is 0"),
    ],
)
def test_arguments_that_do_not_fit_are_named(
    tmp_path: Path, orders: AssetStore, given: dict[str, Any], error: Any, message: str
) -> None:
    raw = new_delta(tmp_path)
    append(raw, 1)
    with pytest.raises(error, match=message):
        incremental(raw, orders, **given)


def test_a_table_needs_a_session(
    raw: LakeTable, orders: AssetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> SparkSession:
        raise PySparkRuntimeError(errorClass="NO_ACTIVE_OR_DEFAULT_SESSION", messageParameters={})

    monkeypatch.setattr(SparkSession, "active", none)
    with pytest.raises(InvalidInput, match="no Spark session is active"):
        incremental(raw, orders)


def test_a_dataframe_needs_a_cursor(orders: AssetStore, local_spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match='cursor="changed_at"'):
        incremental(local_spark.range(3), orders)
    with pytest.raises(InvalidInput, match="on_change"):
        incremental(local_spark.range(3), orders, cursor="id", on_change="reload")


def test_the_watermark_waits_for_the_success_of_the_attempt(
    raw: LakeTable, store: Connection, orders: AssetStore
) -> None:
    task = store.task_store("dag", "run", "load")
    parts = Parts()
    with pytest.raises(RuntimeError, match="crash"), task.attempt() as attempt:
        parts.load(incremental(raw, attempt.asset_store(name="orders")))
        raise RuntimeError("crash")
    assert orders.get("watermark") is None
    append(raw, 3)
    with task.attempt() as attempt:
        parts.load(incremental(raw, attempt.asset_store(name="orders")))
        assert orders.get("watermark") is None
    assert [*parts.found.values()] == [[1, 2]]
    assert ids(incremental(raw, orders).df) == [3]


def test_a_plan_whose_table_was_created_again_says_how_to_give_it_up(
    tmp_path: Path, orders: AssetStore
) -> None:
    raw = new_delta(tmp_path)
    append(raw, 1)
    with pytest.raises(ZeroDivisionError):
        incremental(raw, orders).write(lambda df: 1 // 0)
    rmtree(raw.location)
    append(raw, 1)
    with pytest.raises(TableChanged, match="unfinished load .* created again\nhint: remove what"):
        incremental(raw, orders)
    orders.delete("watermark/plan")
    assert ids(incremental(raw, orders).df) == [1]


class Crash(Exception):
    """The end of an attempt, as if its process had died."""


def crash() -> None:
    raise Crash


@pytest.mark.parametrize("step", STEPS)
def test_a_copy_of_a_table_has_each_row_once_wherever_an_attempt_ends(
    raw: LakeTable, store: Connection, orders: AssetStore, tmp_path: Path, step: str
) -> None:
    copy = delta(tmp_path / "copy", create=True)
    task = store.task_store("dag", "run", "load")

    def load() -> int | None:
        with task.attempt() as attempt:
            return incremental(raw, attempt.asset_store(name="orders")).append(copy).rows

    load()
    append(raw, 3, 4)
    disturb(step, crash)
    with pytest.raises(Crash):
        load()
    append(raw, 5)
    assert load() == 2
    assert load() == 1
    assert [row["id"] for row in in_order(by_library(copy))] == [1, 2, 3, 4, 5]


def test_a_retry_that_finds_its_commit_reads_no_rows(
    raw: LakeTable, orders: AssetStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = delta(tmp_path / "copy", create=True)
    disturb("committed", crash)
    with pytest.raises(Crash):
        incremental(raw, orders).append(copy)
    monkeypatch.setattr(table_versions, "frame", crash)
    assert incremental(raw, orders).append(copy).rows == 2
    assert [row["id"] for row in in_order(by_library(copy))] == [1, 2]


@pytest.mark.full
def test_a_table_is_loaded_on_each_kind_of_spark(
    spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    orders = store.asset_store(name="orders")
    raw = new_delta(tmp_path)
    append(raw, 1, 2)
    found = []
    for new_ids in ((3, 4), (5,)):
        incremental(raw, orders).save(str(tmp_path / "target"))
        append(raw, *new_ids)
        found.append(ids(incremental(raw, orders).df))
    assert found == [[3, 4], [5]]
    assert ids(read_loads(spark, orders, str(tmp_path / "target"))) == [1, 2, 3, 4]
    assert ids(read_table(spark, raw)) == [1, 2, 3, 4, 5]
    assert ids(read_table(spark, raw, 1)) == [1, 2, 3, 4]
