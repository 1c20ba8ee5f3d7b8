"""Directories that loads save, and what readers see of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loading import connection, frame
from pyspark.sql import DataFrame, SparkSession

from holdfast import Connection
from holdfast.errors import InvalidInput
from holdfast.spark.loads import directory
from holdfast.spark.loads.directory import read_loads
from holdfast.spark.loads.incremental import incremental


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Connection]:
    with connection(tmp_path) as opened:
        opened.asset_store(name="orders", declare=True)
        yield opened


@pytest.fixture(params=["renamed", "not renamed"])
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file system with renames, and one without, as object stores are."""
    if request.param == "not renamed":
        monkeypatch.setattr(directory, "renames", lambda spark, path: False)
    return str(request.param)


def ids(df: DataFrame) -> list[int]:
    return sorted(row.id for row in df.collect())


def test_readers_see_finished_loads_and_each_row_once(
    spark: SparkSession, store: Connection, tmp_path: Path, storage: str
) -> None:
    target, asset = str(tmp_path / "out"), store.asset_store(name="orders")
    task = store.task_store("dag", "run", "load")
    df = frame(spark, [(1, 1), (2, 2)])

    for crash in (True, True, False):
        if crash:
            with pytest.raises(RuntimeError, match="crash"), task.attempt() as attempt:
                incremental(df, attempt.asset_store(name="orders"), cursor="at").save(target)
                assert ids(read_loads(spark, asset, target)) == []
                raise RuntimeError("crash")
        else:
            with task.attempt() as attempt:
                incremental(df, attempt.asset_store(name="orders"), cursor="at").save(target)
    assert ids(read_loads(spark, asset, target)) == [1, 2]
    incremental(frame(spark, [(1, 1), (2, 2), (3, 3)]), asset, cursor="at").save(target)

    found = read_loads(spark, asset, target)
    assert ids(found) == [1, 2, 3]
    assert found.columns == ["id", "at", "load"]
    if storage == "renamed":
        assert ids(spark.read.parquet(target)) == [1, 2, 3]
    [recorded] = asset.get("watermark/load")["directories"]
    assert ids(spark.read.parquet(recorded)) == [3]


def test_a_saved_directory_says_what_is_in_it(
    spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    asset, target = store.asset_store(name="orders"), tmp_path / "out"
    load = incremental(frame(spark, [(1, 1), (2, 2)]), asset, cursor="at")

    load.save(str(target), partition_by="id", options={"compression": "gzip"})

    manifest = json.loads((target / load.name / "_holdfast.json").read_text())
    assert {"from": None, "to": 2, "rows": 2, "number": 0}.items() <= manifest.items()
    assert manifest["writer"].startswith("api ")
    assert (target / load.name / "id=1").is_dir()
    assert list(target.rglob("*.gz.parquet"))


def test_a_load_without_rows_leaves_no_directory(
    spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    asset, target = store.asset_store(name="orders"), tmp_path / "out"

    loaded = incremental(frame(spark, []), asset, cursor="at").save(str(target))

    assert loaded.rows == 0
    assert not target.exists()


def test_a_backfill_that_is_done_again_replaces_its_directory(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    asset, target = store.asset_store(name="orders"), str(tmp_path / "out")
    for rows in ([(1, 1), (2, 2)], [(1, 1), (3, 2)]):
        df = frame(classic_spark, list(rows))
        incremental(df, asset, cursor="at", initial=1, end_value=2, closed="both").save(target)

    assert ids(classic_spark.read.parquet(target)) == [1, 3]
    assert [one.value["kind"] for one in asset.history("watermark/load")] == ["backfill"] * 2


@pytest.mark.parametrize("query", ["INSERT INTO orders SELECT 1", "SELECT 1 FROM {news}"])
def test_a_statement_that_does_not_read_the_new_rows_is_refused(
    classic_spark: SparkSession, store: Connection, query: str
) -> None:
    load = incremental(
        frame(classic_spark, [(1, 1)]), store.asset_store(name="orders"), cursor="at"
    )

    with pytest.raises(InvalidInput, match="does not read the new rows"):
        load.sql(query)


def test_one_statement_writes_the_new_rows(
    spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    asset, table = store.asset_store(name="orders"), f"t_{tmp_path.name.replace('-', '_')}"
    spark.sql(f"DROP TABLE IF EXISTS {table}")
    spark.sql(f"CREATE TABLE {table} (id LONG, at LONG) USING parquet")
    rules: dict[str, Any] = {"cursor": "at"}

    for rows in ([(1, 1)], [(1, 1), (2, 2)]):
        load = incremental(frame(spark, list(rows)), asset, **rules)
        assert (
            load.sql(
                f"INSERT INTO {table} SELECT * FROM {{new}} WHERE id < :most", args={"most": 9}
            ).rows
            == 1
        )

    assert ids(spark.table(table)) == [1, 2]
    spark.sql(f"DROP TABLE {table}")
