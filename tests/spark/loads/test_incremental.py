"""Incremental loads on each kind of Spark."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from loading import Table, connection, frame
from pyspark.sql import DataFrame, SparkSession, functions

from holdfast import Connection
from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput, VersionConflict
from holdfast.spark.loads.incremental import Loaded, incremental

NEW_YEAR = datetime(2013, 1, 1, tzinfo=UTC)
EVENTS = "id long, at timestamp"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Connection]:
    with connection(tmp_path) as opened:
        opened.asset_store(name="events", declare=True)
        yield opened


@pytest.fixture
def events(store: Connection) -> AssetStore:
    return store.asset_store(name="events")


def hours(*numbers: int) -> list[tuple[int, datetime]]:
    return [(number, NEW_YEAR + timedelta(hours=number)) for number in numbers]


def ids(df: DataFrame) -> list[int]:
    return sorted(row.id for row in df.collect())


@pytest.mark.full
def test_each_load_writes_the_rows_after_the_previous_one(
    spark: SparkSession, events: AssetStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    source, target = str(tmp_path / "source"), tmp_path / "target"

    def load() -> Loaded:
        new = incremental(spark.read.parquet(source), events, cursor="at")
        return new.write(lambda df: df.write.mode("overwrite").parquet(str(target / new.name)))

    frame(spark, hours(1, 2, 3), EVENTS).write.parquet(source)
    first = load()
    frame(spark, hours(4, 5), EVENTS).write.mode("append").parquet(source)
    second = load()
    third = load()

    assert first == Loaded(3, None, NEW_YEAR + timedelta(hours=3))
    assert second == Loaded(2, NEW_YEAR + timedelta(hours=3), NEW_YEAR + timedelta(hours=5))
    assert third == Loaded(0, NEW_YEAR + timedelta(hours=5), NEW_YEAR + timedelta(hours=5))
    assert "nothing new for `watermark` of asset `events`" in caplog.text
    assert ids(spark.read.parquet(str(target))) == [1, 2, 3, 4, 5]
    assert len(events.history("watermark")) == 2
    assert events.get("watermark") == {
        "cursor": "at",
        "type": "timestamp",
        "value": "2013-01-01T05:00:00.000000Z",
        "load": {"number": 1, "saved": [""]},
    }


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("timestamp", [datetime(2013, 3, 31, 1, 30, 0, n, tzinfo=UTC) for n in (1, 2)]),
        ("timestamp_ntz", [datetime(2013, 3, 31, 2, 30, 0, n) for n in (1, 2)]),  # noqa: DTZ001
        ("date", [date(1, 1, 1), date(9999, 12, 31)]),
        ("tinyint", [-128, 127]),
        ("bigint", [2**53 + 1, 2**53 + 2]),
        ("decimal(38,18)", [Decimal("0.000000000000000001"), Decimal("0.000000000000000002")]),
        ("string", ["a'`\\", "å 𝄞"]),
    ],
)
def test_a_cursor_of_any_type_is_compared_exactly_in_any_time_zone(
    spark: SparkSession, events: AssetStore, kind: str, values: list[Any]
) -> None:
    low, high = values
    until = high if kind == "date" else None  # it is in the future
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        one = frame(spark, [(low,)], f"`a.t` {kind}")
        both = frame(spark, [(low,), (high,)], f"`a.t` {kind}")
        table = Table()

        first = table.load(incremental(one, events, cursor="a.t", initial=low, key=kind))
        second = table.load(incremental(both, events, cursor="a.t", until=until, key=kind))

        assert first == Loaded(1, None, low)
        assert second == Loaded(1, low, high)
        assert incremental(both, events, cursor="a.t", until=until, key=kind).df.count() == 0
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.full
def test_late_rows_and_those_at_the_boundary_are_loaded_once(
    spark: SparkSession, events: AssetStore
) -> None:
    table = Table()

    def load(rows: list[tuple[int, int]]) -> Loaded:
        new = incremental(frame(spark, rows), events, cursor="at", lag=3, primary_key="id")
        return table.load(new)

    rows = [(1, 5), (2, 10), (2, 10)]
    assert load(rows) == Loaded(2, None, 10)
    rows += [(3, 10), (1, 7), (4, 6)]
    assert load(rows) == Loaded(2, 10, 10)
    assert load(rows) == Loaded(0, 10, 10)
    rows += [(3, 12)]
    assert load(rows) == Loaded(1, 10, 12)

    too_late = (4, 6)
    assert table.rows() == sorted({*rows} - {too_late})


def test_the_watermark_waits_for_the_success_of_the_attempt(
    spark: SparkSession, store: Connection, events: AssetStore
) -> None:
    df, table = frame(spark, [(1, 1), (2, 2)]), Table()
    task = store.task_store("dag", "run", "load")

    with pytest.raises(RuntimeError, match="crash"), task.attempt() as attempt:
        table.load(incremental(df, attempt.asset_store(name="events"), cursor="at"))
        raise RuntimeError("crash")
    assert events.entry("watermark") is None
    with task.attempt() as attempt:
        loaded = table.load(incremental(df, attempt.asset_store(name="events"), cursor="at"))
        assert events.entry("watermark") is None

    assert loaded == Loaded(2, None, 2)
    assert events.get("watermark")["value"] == 2
    assert table.rows() == [(1, 1), (2, 2)]


def test_one_of_two_overlapping_loads_moves_the_watermark_and_both_have_the_same_rows(
    spark: SparkSession, store: Connection, events: AssetStore
) -> None:
    df, table = frame(spark, [(1, 1), (2, 2)]), Table()
    slow = store.task_store("dag", "slow", "load")
    more = frame(spark, [(1, 1), (2, 2), (3, 3)])

    with pytest.raises(VersionConflict), slow.attempt() as attempt:
        table.load(incremental(df, attempt.asset_store(name="events"), cursor="at"))
        fast = table.load(incremental(more, events, cursor="at"))
    with slow.attempt() as attempt:
        again = table.load(incremental(more, attempt.asset_store(name="events"), cursor="at"))

    assert fast == Loaded(2, None, 2)
    assert again == Loaded(1, 2, 3)
    assert table.rows() == [(1, 1), (2, 2), (3, 3)]


def test_the_watermark_is_the_end_of_the_load_whatever_the_function_reads(
    spark: SparkSession, events: AssetStore
) -> None:
    df = frame(spark, [(number, number) for number in range(100)]).repartition(3)

    assert incremental(df, events, cursor="at", key="none").write(lambda new: None).to == 99
    assert incremental(df, events, cursor="at", key="first").write(DataFrame.first).rows == 100
    assert events.get("none")["value"] == events.get("first")["value"] == 99


def test_a_function_may_write_to_several_sinks_and_retry(
    spark: SparkSession, events: AssetStore, tmp_path: Path
) -> None:
    df = frame(spark, [(1, 1), (2, 2)])

    def write(new: DataFrame) -> None:
        with pytest.raises(Exception, match="not today"):
            new.select(functions.raise_error(functions.lit("not today"))).collect()
        new.write.parquet(str(tmp_path / "one"))
        new.groupBy("id").count().write.parquet(str(tmp_path / "two"))

    def count(new: DataFrame) -> None:
        new.groupBy("id").count().collect()

    assert incremental(df, events, cursor="at").write(write) == Loaded(2, None, 2)
    assert incremental(df, events, cursor="at", primary_key="id").write(count).rows == 0
    assert spark.read.parquet(str(tmp_path / "two")).count() == 2


def test_a_null_cursor_fails_the_write_or_is_skipped_or_included(
    spark: SparkSession, events: AssetStore, tmp_path: Path
) -> None:
    df = frame(spark, [(1, 1), (2, None)])
    target = tmp_path / "target"

    with pytest.raises(InvalidInput, match="cursor `at` is null in 1 rows .*nothing was loaded"):
        incremental(df, events, cursor="at").write(lambda new: new.write.parquet(str(target)))
    assert not target.exists()
    assert events.entry("watermark") is None

    included = Table()
    again = incremental(df, events, cursor="at", on_null="include", primary_key=(), key="included")
    assert included.load(again) == Loaded(2, None, 1)
    skipped = incremental(df, events, cursor="at", on_null="skip")
    assert Table().load(skipped) == Loaded(1, None, 1)


@pytest.mark.full
def test_a_backfill_does_not_move_the_watermark(spark: SparkSession, events: AssetStore) -> None:
    df, table = frame(spark, [(number, number) for number in range(10)]), Table()
    table.load(incremental(df, events, cursor="at", initial=8))
    before = events.entry("watermark")

    def backfill(**rules: Any) -> list[int]:
        return ids(incremental(df, events, cursor="at", initial=2, end_value=5, **rules).df)

    assert table.load(incremental(df, events, cursor="at", end_value=3)) == Loaded(3, None, 2)
    assert backfill() == [2, 3, 4]
    assert backfill(closed="both") == [2, 3, 4, 5]
    assert backfill(closed="right") == [3, 4, 5]
    assert backfill(closed="neither", primary_key="id") == [3, 4]
    assert events.entry("watermark") == before
    assert len(table.parts) == 2


@pytest.mark.full
def test_the_source_filters(
    spark: SparkSession, events: AssetStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(tmp_path / "source")
    days = frame(spark, hours(1, 30), EVENTS).withColumn("day", functions.to_date("at"))
    days.write.partitionBy("day").parquet(source)
    df = spark.read.parquet(source)
    since = NEW_YEAR + timedelta(hours=2)

    incremental(df, events, cursor="at", initial=since).df.explain()
    by_row = capsys.readouterr().out
    incremental(df, events, cursor="day", initial=date(2013, 1, 2)).df.explain()
    by_partition = capsys.readouterr().out

    assert "PushedFilters: [IsNotNull(at), GreaterThanOrEqual(at,2013-01-01" in by_row
    assert "LessThanOrEqual(at,2013-01-02" in by_row
    filters = by_partition.partition("PartitionFilters: ")[2]
    assert ">= 2013-01-02)" in filters
    assert "<= 2013-01-02)" in filters


def test_a_load_survives_a_killed_executor(
    request: pytest.FixtureRequest, spark: SparkSession, events: AssetStore, tmp_path: Path
) -> None:
    if "[cluster]" not in request.node.name:
        pytest.skip("there is no executor to kill")
    killed, target = tmp_path / "killed", str(tmp_path / "target")

    def die_once(parts: Iterator[Any]) -> Iterator[Any]:
        for part in parts:
            yield part
            if 30 in set(part["id"]) and not killed.exists():
                killed.touch()
                daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
                os.kill(int(daemon.split()[3]), signal.SIGKILL)

    df = frame(spark, [(number, number) for number in range(40)]).repartition(4, "id")
    dying = df.mapInPandas(die_once, "id long, at long")
    load = incremental(dying, events, cursor="at", primary_key="id")

    loaded = load.write(lambda new: new.write.mode("overwrite").parquet(target))

    assert killed.exists()
    assert loaded.to == 39
    assert ids(spark.read.parquet(target)) == list(range(40))
    assert incremental(df, events, cursor="at", primary_key="id").df.count() == 0
