"""Checks of the rows, quarantine, and the schema contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loading import connection, frame
from pyspark.sql import SparkSession

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import CheckFailed, InvalidInput, SourceChanged
from holdfast.spark.loads.directory_reader import read_loads
from holdfast.spark.loads.incremental import Loaded, incremental, portions

ROWS = [(1, 10, 5.0), (2, 11, None), (None, 12, -1.0), (1, 13, 7.0)]
SCHEMA = "id long, at long, amount double"


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[AssetStore]:
    with connection(tmp_path) as opened:
        yield opened.asset_store(name="orders", declare=True)


@pytest.mark.parametrize(
    ("expect", "failure"),
    [
        ({"not_null": "id"}, "not_null id: 1"),
        ({"not_null": ["id", "amount"]}, "not_null id: 1; not_null amount: 1"),
        ({"range": {"amount": (0, None)}}, "range amount: 1"),
        ({"range": {"amount": (None, 4)}}, "range amount: 2"),
        ({"where": "amount > 0"}, "where amount > 0: 2"),
        ({"where": ["id < 9", "at < 13"]}, "where id < 9: 1; where at < 13: 1"),
        ({"unique": "id"}, "unique id: 1"),
        ({"unique": ["ID", "at"], "rows": (5, None)}, r"rows \(5, None\): 4"),
        ({"rows": (None, 3)}, r"rows \(None, 3\): 4"),
    ],
)
def test_rows_that_fail_a_check_fail_the_load_before_it_is_written(
    classic_spark: SparkSession, orders: AssetStore, expect: dict[str, Any], failure: str
) -> None:
    df = frame(classic_spark, ROWS, SCHEMA)

    with pytest.raises(CheckFailed, match=f"fail a check: {failure}; nothing was loaded"):
        incremental(df, orders, cursor="at", expect=expect)
    assert orders.entry("watermark") is None


def test_checks_that_pass_are_recorded(spark: SparkSession, orders: AssetStore) -> None:
    expect = {
        "not_null": "at",
        "range": {"at": (10, 13)},
        "where": "at > 0",
        "unique": "at",
        "rows": (4, 4),
    }
    load = incremental(frame(spark, ROWS, SCHEMA), orders, cursor="at", expect=expect)

    assert load.write(lambda new: None).rows == 4
    assert orders.get("watermark/load")["checks"] == {
        "not_null at": 0,
        "range at": 0,
        "where at > 0": 0,
        "unique at": 0,
        "rows": 0,
    }


def test_nulls_are_not_duplicates_of_each_other(
    classic_spark: SparkSession, orders: AssetStore
) -> None:
    df = frame(classic_spark, [(None, 1, 1.0), (None, 2, 1.0), (3, 3, 1.0)], SCHEMA)

    load = incremental(df, orders, cursor="at", expect={"unique": ["amount", "id"]})

    assert load.write(lambda new: None).rows == 3


@pytest.mark.full
def test_only_the_rows_of_the_load_are_checked(
    classic_spark: SparkSession, orders: AssetStore
) -> None:
    rules: dict[str, Any] = {"cursor": "at", "lag": 9, "primary_key": ["id", "amount"]}
    incremental(frame(classic_spark, ROWS, SCHEMA), orders, **rules).write(lambda new: None)
    more = frame(classic_spark, [*ROWS, (7, 14, 1.0), (7, 14, 1.0)], SCHEMA)

    checks = {"not_null": ["id", "amount"], "unique": "id", "rows": (1, 1)}
    load = incremental(more, orders, expect=checks, **rules)

    assert load.write(lambda new: None).rows == 1


@pytest.mark.full
@pytest.mark.parametrize("key", [None, ["at"]])
def test_rows_that_fail_a_check_are_quarantined(
    spark: SparkSession, orders: AssetStore, tmp_path: Path, key: list[str] | None
) -> None:
    bad, good = str(tmp_path / "bad"), str(tmp_path / "good")
    load = incremental(
        frame(spark, ROWS, SCHEMA),
        orders,
        cursor="at",
        primary_key=key,
        expect={"not_null": "id", "where": "amount > 0", "rows": (2, 2)},
        quarantine=bad,
    )

    assert load.save(good) == Loaded(2, None, 13, quarantined=2)
    assert sorted(row.at for row in spark.read.parquet(good).collect()) == [10, 13]
    assert sorted(row.at for row in spark.read.parquet(bad).collect()) == [11, 12]
    record = orders.get("watermark/load")
    assert record["quarantined"] == 2
    assert record["quarantine"] == f"{bad}/{load.name}"
    assert orders.get("watermark")["value"] == 13


@pytest.mark.full
def test_a_changed_schema_fails_a_contract_or_is_reported(
    classic_spark: SparkSession, orders: AssetStore, caplog: pytest.LogCaptureFixture
) -> None:
    def load(rows: list[Any], schema: str, contract: Any) -> None:
        df = frame(classic_spark, rows, schema)
        incremental(df, orders, cursor="at", contract=contract).write(lambda new: None)

    load([(1, 1, "a")], "id int, at long, note string", "fail")
    load([(1, 2, "a")], "id int, at long, note string", "fail")
    with pytest.raises(SourceChanged) as raised:
        load([(1, 3, True)], "id long, at long, done boolean", "fail")
    assert raised.value.message.endswith(
        "`note` is missing; `done` (boolean) is new; `id` was int and is now bigint"
    )
    assert orders.get("watermark")["value"] == 2

    load([(1, 3, True)], "id long, at long, done boolean", "warn")
    assert "the source's schema has changed: `note` is missing" in caplog.text
    load([(1, 4, True)], "id long, at long, done boolean", "fail")
    assert len(orders.history("watermark/schema")) == 2


@pytest.mark.full
def test_a_failing_duplicate_is_quarantined_once_and_hides_no_good_row(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    rows = [(1, 10, 5.0), (2, 11, -1.0), (2, 11, -1.0), (3, 12, -1.0), (3, 12, 7.0)]
    load = incremental(
        frame(classic_spark, rows, SCHEMA),
        orders,
        cursor="at",
        primary_key="id",
        expect={"where": "amount > 0"},
        quarantine=tmp_path / "bad",
    )

    assert load.save(str(tmp_path / "good")) == Loaded(2, None, 12, quarantined=2)
    good = classic_spark.read.parquet(str(tmp_path / "good"))
    assert sorted(row.id for row in good.collect()) == [1, 3]


def test_a_backfill_does_not_change_the_contract(
    classic_spark: SparkSession, orders: AssetStore
) -> None:
    incremental(frame(classic_spark, [(1, 1)]), orders, cursor="at", contract="fail").write(
        lambda new: None
    )
    other = frame(classic_spark, [(1, 1, 1)], "id long, at long, more long")

    incremental(other, orders, cursor="at", contract="warn", end_value=5).write(lambda new: None)

    assert len(orders.history("watermark/schema")) == 1


@pytest.mark.full
@pytest.mark.parametrize(
    ("bad", "loaded"), [((10, 19), 20), ((0, 14), 15), ((15, 29), 15), ((0, 29), 0)]
)
def test_portions_continue_after_rows_that_are_all_quarantined(
    classic_spark: SparkSession,
    orders: AssetStore,
    tmp_path: Path,
    bad: tuple[int, int],
    loaded: int,
) -> None:
    df = classic_spark.range(30).selectExpr("id", "id AS at")
    rules: dict[str, Any] = {
        "expect": {"where": f"id NOT BETWEEN {bad[0]} AND {bad[1]}"},
        "quarantine": tmp_path / "bad",
    }

    for new in portions(df, orders, cursor="at", max_rows=5, **rules):
        new.save(str(tmp_path / "out"))

    assert orders.get("watermark")["value"] == 29
    assert read_loads(classic_spark, orders, str(tmp_path / "out")).count() == loaded
    assert classic_spark.read.parquet(str(tmp_path / "bad")).count() == 30 - loaded


@pytest.mark.parametrize(("data", "bad"), [("x", "x/"), ("x", "x/bad"), ("x/good", "x")])
def test_rows_and_quarantined_rows_have_different_paths(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path, data: str, bad: str
) -> None:
    new = incremental(
        *(frame(classic_spark, [(1, 1), (2, 2)]), orders),
        cursor="at",
        expect={"where": "id < 2"},
        quarantine=f"file:{tmp_path}/{bad}",
    )

    with pytest.raises(InvalidInput, match="one contains the other"):
        new.save(f"{tmp_path}/{data}")
    assert new.save(f"{tmp_path}/beside").rows == 1
