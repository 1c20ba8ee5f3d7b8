"""The end of a load: determined, given, in portions, and never in the future."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from loading import Table, connection, frame
from pyspark.sql import DataFrame, SparkSession

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import CheckFailed, InvalidInput
from holdfast.spark.loads.incremental import Loaded, incremental, portions
from holdfast.spark.loads.source import source_of

EVENTS = "id long, at timestamp"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def events(tmp_path: Path) -> Iterator[AssetStore]:
    with connection(tmp_path) as opened:
        yield opened.asset_store(name="events", declare=True)


def ids(df: DataFrame) -> list[int]:
    return sorted(row.id for row in df.collect())


@pytest.mark.full
def test_rows_that_arrive_during_a_load_belong_to_the_next(
    spark: SparkSession, events: AssetStore, tmp_path: Path
) -> None:
    source = str(tmp_path / "source")
    frame(spark, [(1, 1), (2, 2)]).write.parquet(source)
    seen: list[list[int]] = []

    def write(new: DataFrame) -> None:
        seen.append(ids(new))
        frame(spark, [(3, 3), (4, 2), (5, 1)]).write.mode("append").parquet(source)
        seen.append(ids(new))

    rules = {"cursor": "at", "lag": 5, "primary_key": "id"}
    incremental(spark.read.parquet(source), events, **rules).write(write)
    second = incremental(spark.read.parquet(source), events, **rules)

    assert seen == [[1, 2], [1, 2]]
    assert ids(second.df) == [3, 4, 5]


def test_a_row_in_the_future_is_reported_and_left_for_later(
    spark: SparkSession, events: AssetStore, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [(1, NOON), (2, datetime(2206, 1, 1, tzinfo=UTC))]
    table = Table()

    first = table.load(incremental(frame(spark, rows, EVENTS), events, cursor="at"))
    rows.append((3, NOON + timedelta(hours=1)))
    second = table.load(incremental(frame(spark, rows, EVENTS), events, cursor="at"))

    assert first == Loaded(1, None, NOON, beyond=1)
    assert second == Loaded(1, NOON, NOON + timedelta(hours=1), beyond=1)
    assert "1 rows have a `at` in the future; left for a later load" in caplog.text
    assert events.get("watermark/load")["beyond"] == 1


@pytest.mark.parametrize(
    ("kind", "value", "sentinel"),
    [
        ("timestamp", "2026-01-31T12:00:00Z", "9999-12-31 23:59:59.999999-12:00"),
        ("timestamp_ntz", "2026-01-31T12:00:00", "9999-12-31"),
        ("date", "2026-01-31", "9999-12-31"),
    ],
)
def test_a_sentinel_in_the_far_future_blocks_nothing(
    classic_spark: SparkSession, events: AssetStore, kind: str, value: str, sentinel: str
) -> None:
    df = classic_spark.sql(
        f"SELECT 1L id, cast('{value}' AS {kind}) at UNION ALL "
        f"SELECT 2L, cast('{sentinel}' AS {kind}) UNION ALL "
        f"SELECT 3L, cast('0001-01-01' AS {kind})"
    )

    loaded = incremental(df, events, cursor="at").write(lambda new: new.count())

    assert (loaded.rows, loaded.beyond) == (2, 1)


@pytest.mark.full
@pytest.mark.parametrize(
    "until",
    [NOON, NOON.isoformat(), lambda: NOON, datetime.now(UTC) - NOON, lambda: "2026-01-31T12:00Z"],
)
def test_until_is_a_value_or_relative_to_now_or_a_function(
    classic_spark: SparkSession, events: AssetStore, until: Any
) -> None:
    later = NOON + timedelta(hours=1)
    df = frame(classic_spark, [(1, NOON - timedelta(hours=1)), (2, later)], EVENTS)

    load = incremental(df, events, cursor="at", until=until)

    assert ids(load.df) == [1]
    assert load.end is not None
    assert load.end < later  # type: ignore[operator]
    load.write(lambda new: None)
    assert ids(incremental(df, events, cursor="at").df) == [2]


@pytest.mark.full
def test_a_past_end_needs_no_spark_job(
    classic_spark: SparkSession, events: AssetStore, tmp_path: Path
) -> None:
    source = str(tmp_path / "source")
    frame(classic_spark, [(1, NOON), (2, None)], EVENTS).write.parquet(source)
    df = classic_spark.read.parquet(source)
    context = classic_spark.sparkContext
    context.setJobGroup("bounding", "")

    load = incremental(df, events, cursor="at", until=NOON, on_null="skip")
    failing = incremental(df, events, cursor="at", until=NOON, key="failing")

    assert context.statusTracker().getJobIdsForGroup("bounding") == []
    assert (load.rows, load.end) == (None, NOON)
    with pytest.raises(InvalidInput, match="the cursor `at` is null in a row"):
        failing.write(lambda new: new.collect())
    assert load.write(lambda new: new.collect()) == Loaded(None, None, NOON)


@pytest.mark.full
def test_a_past_time_is_no_end_for_files_listed_earlier(
    classic_spark: SparkSession, events: AssetStore, tmp_path: Path
) -> None:
    source = str(tmp_path / "source")
    frame(classic_spark, [(1, NOON)], EVENTS).write.parquet(source)
    listed = classic_spark.read.parquet(source)
    frame(classic_spark, [(2, NOON + timedelta(hours=1))], EVENTS).write.parquet(source, "append")

    for until in (timedelta(days=1), lambda: datetime.now(UTC) - timedelta(days=1)):
        load = incremental(listed, events, cursor="at", until=until, key=str(type(until)))
        assert load.write(lambda new: None).to == NOON


@pytest.mark.full
def test_rows_between_an_end_and_a_later_watermark_are_checked(
    classic_spark: SparkSession, events: AssetStore
) -> None:
    rules: dict[str, Any] = {"cursor": "at", "lag": 9, "primary_key": "id"}
    incremental(frame(classic_spark, [(1, 9)]), events, **rules).write(lambda new: None)
    more = frame(classic_spark, [(1, 9), (2, 2), (-3, 7)])

    with pytest.raises(CheckFailed, match="range id: 1"):
        incremental(more, events, until=5, expect={"range": {"id": (0, None)}}, **rules)
    assert incremental(more, events, until=5, **rules).write(lambda new: new.count()).rows == 2


def test_a_number_that_no_row_has_yet_is_no_end(
    classic_spark: SparkSession, events: AssetStore
) -> None:
    rows = [(1, 1), (2, 2)]

    first = incremental(frame(classic_spark, rows), events, cursor="at", until=100)
    assert first.write(lambda new: None).to == 2

    rows.append((3, 3))
    assert ids(incremental(frame(classic_spark, rows), events, cursor="at").df) == [3]


def test_an_end_before_the_watermark_moves_nothing_back(
    classic_spark: SparkSession, events: AssetStore
) -> None:
    df = frame(classic_spark, [(1, NOON), (2, NOON + timedelta(hours=2))], EVENTS)
    incremental(df, events, cursor="at").write(lambda new: None)

    again = incremental(df, events, cursor="at", until=NOON)

    assert again.df.isEmpty()
    again.write(lambda new: None)
    assert events.get("watermark")["value"] == "2026-01-31T14:00:00.000000Z"


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bigint", [2**62 + number for number in range(10)]),
        ("decimal(38,18)", [Decimal(number) for number in range(10)]),
        ("string", [f"{number:03}" for number in range(10)]),
        ("date", [date(2026, 1, 1 + number) for number in range(10)]),
        ("timestamp", [NOON + timedelta(microseconds=number) for number in range(10)]),
    ],
)
def test_portions_come_to_an_end_and_are_together_all_rows(
    spark: SparkSession, events: AssetStore, kind: str, values: list[Any]
) -> None:
    df = frame(
        spark, [(number, value) for number, value in enumerate(values)], f"id long, at {kind}"
    )
    table, sizes = Table(), []

    for portion in portions(df, events, cursor="at", max_rows=4, key=kind):
        sizes.append(portion.rows)
        table.load(portion)

    assert [row[0] for row in table.rows()] == list(range(10))
    assert 3 <= len(sizes) <= 10


@pytest.mark.full
def test_a_portion_never_splits_rows_of_the_same_value(
    classic_spark: SparkSession, events: AssetStore
) -> None:
    df = frame(classic_spark, [(number, 7) for number in range(10)])

    assert incremental(df, events, cursor="at", max_rows=3).rows == 10


def test_a_portion_that_is_not_written_ends_the_loop_with_an_error(
    classic_spark: SparkSession, events: AssetStore
) -> None:
    df = frame(classic_spark, [(1, 1)])

    with pytest.raises(InvalidInput, match="the last portion was not written"):
        list(portions(df, events, cursor="at", max_rows=1))


@pytest.mark.full
def test_portions_in_an_attempt_stay_when_it_fails(
    classic_spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    df, table = frame(classic_spark, [(number, number) for number in range(10)]), Table()
    with connection(tmp_path) as store:
        store.asset_store(name="events", declare=True)
        task = store.task_store("dag", "run", "load")

        def load(stop_after: int) -> None:
            with task.attempt() as attempt:
                asset = attempt.asset_store(name="events")
                loads = portions(df, asset, cursor="at", max_rows=4)
                for number, portion in enumerate(loads, start=1):
                    table.load(portion)
                    if number == stop_after:
                        raise RuntimeError("crash")

        with pytest.raises(RuntimeError, match="crash"):
            load(stop_after=2)
        before = dict(table.parts)
        load(stop_after=99)

    assert len(before) == 2
    assert before.items() <= table.parts.items()
    assert [row[0] for row in table.rows()] == list(range(10))


@pytest.mark.full
def test_the_rows_of_the_lag_are_not_a_portion_of_their_own(
    classic_spark: SparkSession, events: AssetStore
) -> None:
    df, table = frame(classic_spark, [(number, number) for number in range(10)]), Table()

    for portion in portions(df, events, cursor="at", max_rows=4, lag=3, primary_key=()):
        table.load(portion)

    assert {row[0] for row in table.rows()} == set(range(10))
    assert len(table.parts) == 3


def test_an_end_that_is_given_again_is_no_load(
    classic_spark: SparkSession, events: AssetStore, tmp_path: Path
) -> None:
    source = str(tmp_path / "source")
    frame(classic_spark, [(1, NOON)], EVENTS).write.parquet(source)
    for _ in range(3):
        df = classic_spark.read.parquet(source)
        incremental(df, events, cursor="at", until=NOON).save(str(tmp_path / "out"))

    assert len(events.history("watermark/load")) == 1
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_an_unchecked_null_cursor_fails_a_save_too(
    classic_spark: SparkSession, events: AssetStore, tmp_path: Path
) -> None:
    source = str(tmp_path / "source")
    frame(classic_spark, [(1, NOON), (2, None)], EVENTS).write.parquet(source)
    load = incremental(classic_spark.read.parquet(source), events, cursor="at", until=NOON)

    with pytest.raises(InvalidInput, match="the cursor `at` is null in a row"):
        load.save(str(tmp_path / "out"))


def test_a_table_of_a_catalog_is_read_once(classic_spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    frame(classic_spark, [(1, 1)]).write.option("path", place).saveAsTable("listed_again")

    assert not source_of(classic_spark.table("listed_again")).is_fixed
    classic_spark.sql("DROP TABLE listed_again")


def test_invalid_utf_8_is_no_end(classic_spark: SparkSession, events: AssetStore) -> None:
    texts = "SELECT 1L id, 'ü' at UNION ALL SELECT 2L, cast(X'FF' AS string)"

    with pytest.raises(InvalidInput, match="has the bytes FF, which are not valid UTF-8"):
        incremental(classic_spark.sql(texts), events, cursor="at")
    first = incremental(classic_spark.sql(texts).where("id = 1"), events, cursor="at")
    assert first.write(lambda new: None).to == "ü"


def test_a_nondeterministic_source_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    files = str(tmp_path / "files")
    frame(spark, [(1, 1)]).write.parquet(files)
    df = spark.read.parquet(files)

    assert [
        source_of(one).is_fixed for one in (df, spark.range(3), df.where("id > 0").join(df, "id"))
    ] == [
        True,
        True,
        True,
    ]
    changing = [
        df.where("rand() > 0.5"),
        df.selectExpr("id", "uuid() AS at"),
        df.limit(1),
        df.dropDuplicates(["id"]),
        df.sample(0.5),
        df.join(df.limit(1), "id"),
        df.where("current_timestamp() > timestamp '2026-01-31'"),
        df.where("at < unix_timestamp()"),
        df.groupBy("id").agg({"at": "first"}),
    ]
    assert [source_of(one).is_fixed for one in changing] == [False] * len(changing)
