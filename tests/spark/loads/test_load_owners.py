"""Ownership of load directories, which are read as they were written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from loading import connection, frame, save_without_renames
from pyspark.sql import DataFrame, SparkSession

from holdfast import Connection
from holdfast.accessor.asset_store import AssetStore
from holdfast.actions.loads import loads_of
from holdfast.errors import InvalidInput, NotFound, StaleAttempt, VersionConflict
from holdfast.model.scope import AssetScope
from holdfast.spark.loads import directory_writer
from holdfast.spark.loads.directory_reader import read_loads
from holdfast.spark.loads.incremental import incremental
from holdfast.spark.loads.load import Load
from holdfast.spark.paths import digest
from holdfast.spark.publication import publish, withdraw
from holdfast.store import run

RANGE: dict[str, Any] = {"cursor": "at", "initial": 0, "end_value": 10}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Connection]:
    with connection(tmp_path) as opened:
        opened.asset_store(name="orders", declare=True)
        yield opened


@pytest.fixture(params=["renamed", "not renamed"])
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a file system with renames, and one without, as object stores are."""
    if request.param == "not renamed":
        save_without_renames(monkeypatch)
    return str(request.param)


def ids(df: DataFrame) -> list[int]:
    return sorted(row.id for row in df.collect())


@pytest.mark.full
@pytest.mark.usefixtures("storage")
def test_a_backfill_of_an_ended_attempt_replaces_nothing(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, target = classic_spark, str(tmp_path / "out")
    task = store.task_store("dag", "run", "load")
    with pytest.raises(StaleAttempt), task.attempt() as zombie:
        old = incremental(frame(spark, [(8, 8)]), zombie.asset_store(name="orders"), **RANGE)
        with task.attempt() as attempt:
            its = attempt.asset_store(name="orders")
            incremental(frame(spark, [(9, 9)]), its, **RANGE).save(target)
        old.save(target)

    assert ids(read_loads(spark, store.asset_store(name="orders"), target)) == [9]
    assert ids(spark.read.parquet(target)) == [9]


@pytest.mark.full
@pytest.mark.usefixtures("storage")
def test_of_two_concurrent_backfills_the_later_one_is_read(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, target = classic_spark, str(tmp_path / "out")
    asset = store.asset_store(name="orders")
    first = incremental(frame(spark, [(1, 1)]), asset, **RANGE)
    second = incremental(frame(spark, [(2, 2)]), asset, **RANGE)
    begun = first._begin(directory_writer.Output(target, "parquet", (), {}))

    second.save(target)

    with pytest.raises(VersionConflict, match="a later try of load="):
        begun.confirm()
    assert ids(read_loads(spark, asset, target)) == [2]


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("range_", [{"cursor": "at"}, RANGE], ids=["load", "backfill"])
def test_another_store_does_not_replace_the_loads_of_an_asset_with_the_same_name(
    classic_spark: SparkSession,
    store: Connection,
    tmp_path: Path,
    range_: dict[str, Any],
    storage: str,
) -> None:
    spark, target = classic_spark, str(tmp_path / "out")
    asset = store.asset_store(name="orders")
    incremental(frame(spark, [(1, 1), (2, 2)]), asset, **range_).save(target)
    (tmp_path / "other").mkdir()

    with connection(tmp_path / "other") as other:
        its = other.asset_store(name="orders", declare=True)
        load = incremental(frame(spark, [(7, 7)]), its, **range_)
        with suppress(InvalidInput):
            load.save(target)
        with suppress(InvalidInput):  # nor does a retry
            load.save(target)
        if storage == "renamed":
            with pytest.raises(InvalidInput, match="and this load did not save it"):
                load.save(target)

    assert ids(read_loads(spark, asset, target)) == [1, 2]


@pytest.mark.full
@pytest.mark.usefixtures("storage")
def test_a_load_with_other_rules_replaces_the_files_of_its_predecessor(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, target = classic_spark, str(tmp_path / "out")
    asset, task = store.asset_store(name="orders"), store.task_store("dag", "run", "load")
    df = frame(spark, [(1, 1), (2, 2)])
    with suppress(KeyError), task.attempt() as attempt:
        incremental(df, attempt.asset_store(name="orders"), cursor="at").save(target)
        raise KeyError

    incremental(df, asset, cursor="at", initial=2).save(target)

    assert ids(read_loads(spark, asset, target)) == [2]


@pytest.mark.full
@pytest.mark.usefixtures("storage")
def test_times_in_the_names_of_partitions_are_those_that_were_saved(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, target = classic_spark, str(tmp_path / "out")
    asset, zone = store.asset_store(name="orders"), "spark.sql.session.timeZone"
    twice = [datetime(2026, 11, 1, hour, 30, tzinfo=UTC) for hour in (5, 6)]
    before = spark.conf.get(zone)
    try:
        for number, writers in enumerate(("America/New_York", "Asia/Tokyo")):
            spark.conf.set(zone, writers)
            rows = [(2 * number + n, 2 * number + n, at) for n, at in enumerate(twice)]
            df = frame(spark, rows, "id long, at long, day timestamp")
            incremental(df, asset, cursor="at").save(target, partition_by="day")
        spark.conf.set(zone, "UTC")
        found = read_loads(spark, asset, target).selectExpr("id", "unix_seconds(day) AS at")
        assert sorted(map(tuple, found.collect())) == [
            (id, int(twice[id % 2].timestamp())) for id in range(4)
        ]
    finally:
        spark.conf.set(zone, before)


@pytest.mark.full
@pytest.mark.parametrize("format", ["parquet", "orc", "json", "csv"])
def test_times_in_the_names_of_partitions_are_in_utc_whatever_the_options(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, format: str
) -> None:
    spark, target = classic_spark, tmp_path / "out"
    asset, zone = store.asset_store(name="orders"), {"timeZone": "America/New_York"}
    twice = [datetime(2026, 11, 1, hour, 30, tzinfo=UTC) for hour in (5, 6)]
    rows = [(number, at, at) for number, at in enumerate(twice)]
    df = frame(spark, rows, "at long, day timestamp, hour timestamp")

    way: dict[str, Any] = {"format": format, "options": zone, "partition_by": "day"}
    incremental(df, asset, cursor="at").save(str(target), **way)

    names = [directory.name for directory in target.glob("load=*/day=*")]
    assert sorted(names) == ["day=2026-11-01 05%3A30%3A00", "day=2026-11-01 06%3A30%3A00"]
    for options in ({}, {"timeZone": "Asia/Tokyo"}):
        found = read_loads(spark, asset, str(target), options=options)
        found = found.selectExpr("at", "unix_seconds(day) AS day", "unix_seconds(hour) AS hour")
        seconds = [int(at.timestamp()) for at in twice]
        assert sorted(map(tuple, found.collect())) == [
            (number, second, second) for number, second in enumerate(seconds)
        ]


@pytest.mark.full
def test_a_time_is_read_from_files_where_another_path_has_it_in_names(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, asset = classic_spark, store.asset_store(name="orders")
    for number, partition_by in enumerate(("day", None)):
        noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
        df = frame(spark, [(number, noon)], "at long, day timestamp")
        place = str(tmp_path / str(number))
        incremental(df, asset, cursor="at").save(place, partition_by=partition_by)

        [row] = read_loads(spark, asset, place).selectExpr("unix_seconds(day) AS at").collect()
        assert row.at == noon.timestamp()


@pytest.mark.full
@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_partition_by_in_another_case_keeps_the_values(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, format: str
) -> None:
    spark, target = classic_spark, str(tmp_path / "out")
    asset = store.asset_store(name="orders")
    df = frame(spark, [(1, 1, "007"), (2, 2, "1e3")], "id long, at long, code string")

    incremental(df, asset, cursor="at").save(target, format=format, partition_by="CODE")

    found = read_loads(spark, asset, target, format=format)
    assert sorted(row.code for row in found.collect()) == ["007", "1e3"]


def test_a_partition_that_spark_would_hide_is_refused(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    df = frame(classic_spark, [(1, 1, "x")], "id long, at long, `.code` string")
    load = incremental(df, store.asset_store(name="orders"), cursor="at")

    with pytest.raises(InvalidInput, match="begin with a dot"):
        load.save(str(tmp_path / "out"), partition_by=".code")


@pytest.mark.full
def test_json_of_an_attempt_that_failed_does_not_change_types(
    classic_spark: SparkSession,
    store: Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save_without_renames(monkeypatch)
    spark, target = classic_spark, str(tmp_path / "out")
    asset, task = store.asset_store(name="orders"), store.task_store("dag", "run", "load")
    numbers = frame(spark, [(1, 1, 5)], "id long, at long, code int")
    incremental(numbers, asset, cursor="at").save(target, format="json")
    texts = frame(spark, [(1, 1, "5"), (2, 2, "abc")], "id long, at long, code string")
    with suppress(KeyError), task.attempt() as attempt:
        its = attempt.asset_store(name="orders")
        incremental(texts, its, cursor="at").save(target, format="json")
        raise KeyError

    found = read_loads(spark, asset, target, format="json")

    assert [(row.id, row.code) for row in found.collect()] == [(1, 5)]


@pytest.mark.full
def test_directories_with_another_partition_by_are_named(
    spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    asset, target = store.asset_store(name="orders"), str(tmp_path / "out")
    incremental(frame(spark, [(1, 1)]), asset, cursor="at").save(target)
    incremental(frame(spark, [(1, 1), (2, 2)]), asset, cursor="at").save(target, partition_by="id")

    with pytest.raises(InvalidInput, match="saved with different partition_by") as error:
        read_loads(spark, asset, target)

    assert "remove the leftovers" in error.value.hint


def test_only_the_newest_of_repeated_backfills_is_current(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    asset, target = store.asset_store(name="orders"), str(tmp_path / "out")
    for rows in ([(1, 1)], [(1, 1), (2, 2)]):
        incremental(frame(classic_spark, list(rows)), asset, **RANGE).save(target)

    def states() -> list[bool | None]:
        return [one.is_void for one in run(store.store, loads_of(AssetScope(name="orders")))]

    assert states() == [False, True]
    for key in list(asset.keys()):
        if "/backfills/" in key:
            asset.delete(key)
    assert states() == [True, True]


def test_the_number_of_a_load_that_has_succeeded_can_be_asked_for(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    with store.task_store("dag", "run", "load").attempt() as attempt:
        its = attempt.asset_store(name="orders")
        load = incremental(frame(classic_spark, [(1, 1)]), its, cursor="at")
        load.save(str(tmp_path / "out"))

    assert load.number == 0


@pytest.mark.full
def test_a_load_with_another_path_keeps_the_directory_of_another_store(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, lake = classic_spark, str(tmp_path / "lake")
    aside = {"expect": {"where": "id < 3"}, "quarantine": str(tmp_path / "bad")}
    orders = store.asset_store(name="orders")
    incremental(frame(spark, [(1, 1), (3, 3)]), orders, cursor="at", **aside).save(lake)
    (tmp_path / "second").mkdir()
    with connection(tmp_path / "second") as second:
        other = second.asset_store(name="orders", declare=True)
        with pytest.raises(InvalidInput, match="give each store its own path"):
            incremental(frame(spark, [(2, 2), (4, 4)]), other, cursor="at", **aside).save(lake)
        with pytest.raises(InvalidInput, match="give each store its own path"):
            incremental(frame(spark, [(2, 2)]), other, cursor="at").save(lake)

        incremental(frame(spark, [(2, 2)]), other, cursor="at").save(f"{lake}-2")

        assert ids(read_loads(spark, other, f"{lake}-2")) == [2]
    assert ids(read_loads(spark, orders, lake)) == [1]
    assert ids(read_loads(spark, orders, str(tmp_path / "bad"))) == [3]


def test_a_directory_that_no_load_has_saved_is_not_replaced(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    orders = store.asset_store(name="orders")
    load = incremental(frame(classic_spark, [(1, 1)]), orders, cursor="at")
    by_hand = tmp_path / "out" / load.name
    frame(classic_spark, [(7, 7)]).write.parquet(str(by_hand))

    with pytest.raises(InvalidInput, match="or was written without new.save"):
        load.save(str(tmp_path / "out"))

    assert ids(classic_spark.read.parquet(str(by_hand))) == [7]
    assert orders.get("watermark") is None


def test_a_directory_created_during_the_save_is_not_replaced(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark, orders = classic_spark, store.asset_store(name="orders")
    load = incremental(frame(spark, [(1, 1)]), orders, cursor="at")
    by_hand, write = str(tmp_path / "out" / load.name), directory_writer.Output._write

    def overtaken(self: directory_writer.Output, df: DataFrame, directory: str) -> None:
        frame(spark, [(7, 7)]).write.parquet(by_hand)
        write(self, df, directory)

    monkeypatch.setattr(directory_writer.Output, "_write", overtaken)

    with pytest.raises(InvalidInput, match="or was written without new.save"):
        load.save(str(tmp_path / "out"))

    assert ids(spark.read.parquet(by_hand)) == [7]
    assert orders.get("watermark") is None


@pytest.mark.full
@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("way", ["save", "write"])
def test_a_failed_backfill_is_not_read_when_it_is_repeated_elsewhere(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, way: str
) -> None:
    spark, orders = classic_spark, store.asset_store(name="orders")
    task, first = store.task_store("dag", "run", "load"), str(tmp_path / "first")
    incremental(frame(spark, [(1, 11)]), orders, cursor="at").save(first)
    with suppress(ZeroDivisionError), task.attempt() as attempt:
        its = attempt.asset_store(name="orders")
        incremental(frame(spark, [(5, 5)]), its, **RANGE).save(first)
        raise ZeroDivisionError

    again = incremental(frame(spark, [(6, 6)]), orders, **RANGE)
    again.save(str(tmp_path / "second")) if way == "save" else again.write(lambda df: df.collect())

    assert ids(read_loads(spark, orders, first)) == [1]


@pytest.mark.full
def test_a_succeeded_backfill_is_kept_when_it_is_repeated_elsewhere(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, orders = classic_spark, store.asset_store(name="orders")
    places = [str(tmp_path / name) for name in ("first", "second")]

    for place in places:
        incremental(frame(spark, [(5, 5)]), orders, **RANGE).save(place)

    assert [ids(read_loads(spark, orders, place)) for place in places] == [[5], [5]]


def test_a_succeeded_backfill_is_kept_when_its_repetition_fails_before_the_save(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark, orders = classic_spark, store.asset_store(name="orders")
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    incremental(frame(spark, [(5, 5)]), orders, **RANGE).save(first)
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(directory_writer.Output, "_write", lambda *arguments: 1 / 0)
        incremental(frame(spark, [(6, 6)]), orders, **RANGE).save(first)

    incremental(frame(spark, [(7, 7)]), orders, **RANGE).save(second)

    assert ids(read_loads(spark, orders, first)) == [5]
    assert ids(read_loads(spark, orders, second)) == [7]


def refuse_to_save(df: DataFrame, store: AssetStore, path: str) -> None:
    """Fail a backfill after it has begun, and before anything of it is published."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(directory_writer.Output, "_write", lambda *arguments: 1 / 0)
        incremental(df, store, **RANGE).save(path)


@pytest.mark.full
@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("steps", ["A w w", "A w B", "A B -A C", "A B -B C", "A -B A w C"])
def test_a_saved_backfill_is_read_however_it_is_repeated_elsewhere(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, steps: str
) -> None:
    """Save it below A, B and C; it is refused there (-) or written by a function (w)."""
    spark, orders = classic_spark, store.asset_store(name="orders")
    expected: dict[str, list[int]] = {}
    for number, step in enumerate(steps.split()):
        df, path = frame(spark, [(number, 5)]), str(tmp_path / step[-1])
        if step == "w":
            incremental(df, orders, **RANGE).write(lambda rows: rows.collect())
        elif step.startswith("-"):
            refuse_to_save(df, orders, path)
        else:
            incremental(df, orders, **RANGE).save(path)
            expected[path] = [number]

    assert {path: ids(read_loads(spark, orders, path)) for path in expected} == expected


@pytest.mark.full
@pytest.mark.usefixtures("storage")
def test_of_two_backfills_that_overlap_the_earlier_one_fails(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, orders = classic_spark, store.asset_store(name="orders")
    target, note = str(tmp_path / "A"), "id long, at long, note string"
    one, other = (store.task_store("dag", run, "load") for run in "xy")
    with pytest.raises(VersionConflict), one.attempt() as attempt:
        its = attempt.asset_store(name="orders")
        incremental(frame(spark, [(1, 1)]), its, **RANGE).save(target)
        with other.attempt() as later:
            its = later.asset_store(name="orders")
            incremental(frame(spark, [(2, 2, "n")], note), its, **RANGE).save(target)
    incremental(frame(spark, [(3, 3)]), orders, **RANGE).save(str(tmp_path / "C"))

    assert [(row.id, row.note) for row in read_loads(spark, orders, target).collect()] == [(2, "n")]


@pytest.mark.full
@pytest.mark.usefixtures("storage")
def test_a_staged_backfill_fails_when_it_is_repeated_elsewhere(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, orders = classic_spark, store.asset_store(name="orders")
    places = [str(tmp_path / name) for name in "AB"]
    incremental(frame(spark, [(7, 17)]), orders, cursor="at").save(places[0])
    with (
        pytest.raises(VersionConflict),
        store.task_store("dag", "run", "load").attempt() as attempt,
    ):
        its = attempt.asset_store(name="orders")
        incremental(frame(spark, [(1, 1)]), its, **RANGE).save(places[0])
        incremental(frame(spark, [(2, 2)]), orders, **RANGE).save(places[1])

    assert [ids(read_loads(spark, orders, place)) for place in places] == [[7], [2]]


@pytest.mark.full
@pytest.mark.usefixtures("storage")
def test_an_attempt_may_save_a_backfill_below_two_paths_and_again(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, orders = classic_spark, store.asset_store(name="orders")
    places = [str(tmp_path / name) for name in "AB"]
    with store.task_store("dag", "run", "load").attempt() as attempt:
        its = attempt.asset_store(name="orders")
        for number, place in enumerate([*places, places[0]]):
            incremental(frame(spark, [(number, 5)]), its, **RANGE).save(place)

    assert [ids(read_loads(spark, orders, place)) for place in places] == [[2], [1]]


@pytest.mark.full
@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("again", ["json", "fewer columns", "write"])
def test_a_backfill_is_read_as_it_was_saved_below_that_path(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, again: str
) -> None:
    spark, orders = classic_spark, store.asset_store(name="orders")
    first, second = str(tmp_path / "A"), str(tmp_path / "B")
    df = frame(spark, [(1, 1, "007")], "id long, at long, code string")
    incremental(df, orders, **RANGE).save(first, partition_by="code")

    if again == "write":
        incremental(df, orders, **RANGE).write(lambda rows: rows.collect())
    elif again == "json":
        incremental(df, orders, **RANGE).save(second, format="json")
    else:
        incremental(frame(spark, [(2, 2)]), orders, **RANGE).save(second)

    [row] = read_loads(spark, orders, first).collect()
    assert (row.id, row.at, row.code) == (1, 1, "007")
    if again == "json":
        [row] = read_loads(spark, orders, second).collect()
        assert (row.id, row.at, row.code) == (1, 1, "007")


@pytest.mark.full
def test_a_backfill_that_replaced_another_and_failed_is_read_as_it_was_saved(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, orders, target = classic_spark, store.asset_store(name="orders"), str(tmp_path / "A")
    incremental(frame(spark, [(1, 1)]), orders, **RANGE).save(target)
    with (
        suppress(ZeroDivisionError),
        store.task_store("dag", "run", "load").attempt() as attempt,
    ):
        its = attempt.asset_store(name="orders")
        incremental(frame(spark, [(2, 2)]), its, **RANGE).save(target, format="json")
        raise ZeroDivisionError

    assert ids(read_loads(spark, orders, target)) == [2]
    refuse_to_save(frame(spark, [(3, 3)]), orders, target)
    assert ids(read_loads(spark, orders, target)) == [2]


@pytest.mark.full
@pytest.mark.usefixtures("storage")
def test_a_path_where_a_backfill_has_only_failed_has_no_loads(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, orders = classic_spark, store.asset_store(name="orders")
    incremental(frame(spark, [(1, 1)]), orders, **RANGE).save(str(tmp_path / "A"))
    with (
        suppress(ZeroDivisionError),
        store.task_store("dag", "run", "load").attempt() as attempt,
    ):
        its = attempt.asset_store(name="orders")
        incremental(frame(spark, [(2, 2)]), its, **RANGE).save(str(tmp_path / "B"), format="json")
        raise ZeroDivisionError

    with pytest.raises(NotFound, match="has no loads below this path"):
        read_loads(spark, orders, str(tmp_path / "B"))


@pytest.mark.full
@pytest.mark.usefixtures("storage")
def test_a_backfill_is_read_where_its_directory_was_moved_to(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, orders = classic_spark, store.asset_store(name="orders")
    for name in "AB":
        incremental(frame(spark, [(5, 5)]), orders, **RANGE).save(str(tmp_path / name))
    (tmp_path / "A").rename(tmp_path / "moved")
    (tmp_path / "link").symlink_to(tmp_path / "B")

    assert ids(read_loads(spark, orders, str(tmp_path / "moved"))) == [5]
    assert ids(read_loads(spark, orders, f"file:{tmp_path}/link/")) == [5]
    incremental(frame(spark, [(6, 6)]), orders, **RANGE).save(str(tmp_path / "link"))
    assert ids(read_loads(spark, orders, str(tmp_path / "B"))) == [6]


@pytest.mark.full
@pytest.mark.usefixtures("storage")
def test_the_quarantine_of_a_backfill_is_read_in_its_own_format(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, orders, bad = classic_spark, store.asset_store(name="orders"), str(tmp_path / "bad")
    rules: dict[str, Any] = {**RANGE, "expect": {"where": "id < 3"}, "quarantine": bad}
    df = frame(spark, [(1, 1), (4, 4)])

    incremental(df, orders, **rules).save(str(tmp_path / "A"), format="json")

    assert ids(read_loads(spark, orders, bad)) == [4]
    assert ids(read_loads(spark, orders, str(tmp_path / "A"))) == [1]


@pytest.mark.full
def test_backfills_below_different_paths_are_independent(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    orders = store.asset_store(name="orders")
    for path in ("A", "B", "A"):
        incremental(frame(classic_spark, [(5, 5)]), orders, **RANGE).save(str(tmp_path / path))

    loads = run(store.store, loads_of(AssetScope(name="orders")))

    assert [one.is_void for one in loads] == [False, False, True]


def give_up(df: DataFrame, store: Connection, path: str, **rules: Any) -> None:
    """Fail a load after it has published its directory."""
    task = store.task_store("dag", "run", "load")
    with suppress(ZeroDivisionError), task.attempt() as attempt:
        incremental(df, attempt.asset_store(name="orders"), **rules).save(path)
        raise ZeroDivisionError


@pytest.mark.full
@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("way", ["save", "write"])
@pytest.mark.parametrize("fixed", ["all rows pass", "no checks", "another quarantine"])
def test_the_quarantine_of_a_repeated_backfill_is_not_read(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, way: str, fixed: str
) -> None:
    spark, orders, bad = classic_spark, store.asset_store(name="orders"), str(tmp_path / "bad")
    checks: dict[str, Any] = {"expect": {"where": "id < 3"}, "quarantine": bad}
    again = {
        "all rows pass": checks,
        "no checks": {},
        "another quarantine": {**checks, "quarantine": str(tmp_path / "worse")},
    }
    source = frame(spark, [(7, 11), (1, 1), (4, 4)])
    incremental(source, orders, cursor="at", initial=10, **checks).write(lambda df: None)
    assert ids(read_loads(spark, orders, bad)) == [7]

    for rows, rules in (([(1, 1), (4, 4)], checks), ([(1, 1), (2, 2)], again[fixed])):
        load = incremental(frame(spark, rows), orders, **RANGE, **rules)
        load.save(str(tmp_path / "A")) if way == "save" else load.write(lambda df: None)

    assert ids(read_loads(spark, orders, bad)) == [7]


@pytest.mark.full
def test_the_quarantine_of_a_backfill_is_read_as_long_as_its_data(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, orders, bad = classic_spark, store.asset_store(name="orders"), str(tmp_path / "bad")
    checks: dict[str, Any] = {"expect": {"where": "id < 3"}, "quarantine": bad}
    first, second = str(tmp_path / "A"), str(tmp_path / "B")
    incremental(frame(spark, [(1, 1), (4, 4)]), orders, **RANGE, **checks).save(first)

    incremental(frame(spark, [(1, 1), (2, 2)]), orders, **RANGE).save(second)

    assert ids(read_loads(spark, orders, bad)) == [4]
    incremental(frame(spark, [(1, 1), (2, 2)]), orders, **RANGE).save(first)
    with pytest.raises(NotFound):
        read_loads(spark, orders, bad)


@pytest.fixture(params=["o/", "../{}/o", "file:", "link", "real"])
def spelled(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Return a directory, and another spelling of its path."""
    (tmp_path / "o").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "o")
    path, link = str(tmp_path / "o"), str(tmp_path / "link")
    others = {
        "o/": (path, f"{path}/"),
        "../{}/o": (path, f"{tmp_path}/../{tmp_path.name}/o"),
        "file:": (path, f"file:{path}"),
        "link": (path, link),
        "real": (link, path),
    }
    return others[request.param]


@pytest.mark.full
def test_a_backfill_is_read_however_its_path_is_spelled(
    classic_spark: SparkSession, store: Connection, spelled: tuple[str, str], storage: str
) -> None:
    (path, other), spark, orders = spelled, classic_spark, store.asset_store(name="orders")
    incremental(frame(spark, [(9, 50)]), orders, cursor="at").save(path)
    incremental(frame(spark, [(1, 1)]), orders, **RANGE).save(path)
    give_up(frame(spark, [(2, 1)]), store, path, **RANGE)
    before = ids(read_loads(spark, orders, path))

    refuse_to_save(frame(spark, [(3, 1)]), orders, other)

    assert [ids(read_loads(spark, orders, one)) for one in spelled] == [before, before]
    incremental(frame(spark, [(4, 1)]), orders, **RANGE).save(other)
    assert [ids(read_loads(spark, orders, one)) for one in spelled] == [[4, 9], [4, 9]]
    loads = run(store.store, loads_of(AssetScope(name="orders")))
    assert storage == "not renamed" or [one.is_void for one in loads] == [False, True, False]


def test_a_load_is_retried_below_the_same_path_however_it_is_spelled(
    classic_spark: SparkSession, store: Connection, spelled: tuple[str, str]
) -> None:
    (path, other), spark, orders = spelled, classic_spark, store.asset_store(name="orders")
    give_up(frame(spark, [(1, 1)]), store, path, cursor="at")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(directory_writer.Output, "_write", lambda *arguments: 1 / 0)
        incremental(frame(spark, [(1, 1)]), orders, cursor="at").save(other)

    assert ids(spark.read.parquet(path)) == [1]


@pytest.mark.full
def test_a_quarantine_is_recognised_however_its_path_is_spelled(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, spelled: tuple[str, str]
) -> None:
    (path, other), spark, orders = spelled, classic_spark, store.asset_store(name="orders")
    checks: dict[str, Any] = {"expect": {"where": "id < 3"}, "quarantine": path}
    load = incremental(frame(spark, [(1, 1), (4, 4)]), orders, cursor="at", **checks)

    with pytest.raises(InvalidInput, match="one contains the other"):
        load.save(f"{other}/inside")
    load.save(str(tmp_path / "A"), format="json")

    assert ids(read_loads(spark, orders, other)) == [4]


@pytest.mark.full
def test_a_replaced_backfill_that_is_repeated_elsewhere_keeps_its_range(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, storage: str
) -> None:
    spark, orders = classic_spark, store.asset_store(name="orders")
    first = str(tmp_path / "A")
    incremental(frame(spark, [(1, 1)]), orders, **RANGE).save(first)
    give_up(frame(spark, [(2, 2)]), store, first, **RANGE)
    refuse_to_save(frame(spark, [(3, 3)]), orders, first)

    for number, path in ((4, "B"), (5, "C")):
        incremental(frame(spark, [(number, 4)]), orders, **RANGE).save(str(tmp_path / path))

    assert ids(read_loads(spark, orders, first)) == ([2] if storage == "renamed" else [1])


@pytest.mark.full
@pytest.mark.usefixtures("storage")
def test_a_load_with_only_quarantined_rows_does_not_affect_the_next_ones(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, orders, bad = classic_spark, store.asset_store(name="orders"), str(tmp_path / "bad")
    rules: dict[str, Any] = {"primary_key": (), "expect": {"where": "id < 9"}, "quarantine": bad}
    merged: list[list[int]] = []

    for rows in ([(1, 1)], [(90, 1)], [(90, 1)], [(90, 1), (2, 2)], [(90, 1), (2, 2), (91, 3)]):
        load = incremental(frame(spark, rows), orders, cursor="at", **rules)
        load.write(lambda df: merged.append(ids(df)))

    assert merged == [[1], [], [], [2], [2]]
    assert orders.get("watermark")["value"] == 3
    assert ids(read_loads(spark, orders, bad)) == [90, 91]


@pytest.mark.parametrize(("owner", "left"), [("", False), ("mine", False), ("another", True)])
def test_a_withdrawal_removes_directory_and_drafts_unless_another_owns_them(
    tmp_path: Path, owner: str, left: bool
) -> None:
    target = tmp_path / "load=1"
    if owner:
        publish(os.makedirs, str(target), edition=f"{owner} 1", manifest={})
    draft = tmp_path / f"_holdfast-{digest(target.name)}-{digest('mine 2')}-{'0' * 32}"
    draft.mkdir()

    withdraw(str(target), ("mine",))

    assert (draft.exists(), target.exists()) == (left, left)


@pytest.mark.full
def test_times_of_partitions_that_the_author_wrote_are_not_taken_for_utc(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    spark, out = classic_spark, str(tmp_path / "out")
    orders = store.asset_store(name="orders")
    rows = "SELECT {}L AS at, timestamp'2026-01-01 00:00:00Z' AS ts"
    incremental(spark.sql(rows.format(1)), orders, cursor="at").save(out, partition_by="ts")
    assert read_loads(spark, orders, out).count() == 1
    new = incremental(spark.sql(rows.format(2)), orders, cursor="at")
    new.write(lambda df: df.write.partitionBy("ts").parquet(f"{out}/{new.name}"))

    with pytest.raises(InvalidInput, match="000001 was written without new.save, so the time"):
        read_loads(spark, orders, out)


@pytest.mark.full
def test_rows_are_not_saved_below_a_quarantine(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    bad, orders = str(tmp_path / "bad"), store.asset_store(name="orders")
    checks: dict[str, Any] = {"expect": {"where": "id > 0"}, "quarantine": bad}
    source = frame(classic_spark, [(1, 1), (-1, 1)])
    incremental(source, orders, cursor="at", **checks).save(str(tmp_path / "out"))
    wider = incremental(
        frame(classic_spark, [(5, 2, "x")], "id long, at long, x string"), orders, cursor="at"
    )

    with pytest.raises(InvalidInput, match="where earlier loads have quarantined rows"):
        wider.save(f"file:{bad}/")
    wider.save(str(tmp_path / "out"))
    assert ids(read_loads(classic_spark, orders, str(tmp_path / "out"))) == [1, 5]


@pytest.mark.full
@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("deadly", range(1, 6))
def test_a_backfill_that_dies_at_its_success_is_read_from_then_on_or_never(
    classic_spark: SparkSession,
    store: Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    deadly: int,
) -> None:
    orders, there = store.asset_store(name="orders"), str(tmp_path / "there")
    checks: dict[str, Any] = {"expect": {"where": "id > 0"}, "quarantine": str(tmp_path / "bad")}
    puts = iter(range(1, 100))
    put = Load._put

    def dying(self: Load, *arguments: Any, **named: Any) -> None:
        if next(puts) == deadly:
            raise KeyboardInterrupt
        put(self, *arguments, **named)

    source = frame(classic_spark, [(4, 4), (-4, 4)])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Load, "_put", dying)
        incremental(source, orders, **RANGE, **checks).save(there)

    def read() -> list[int]:
        try:
            return ids(read_loads(classic_spark, orders, there))
        except NotFound:
            return []

    assert read() == ([] if deadly <= 4 else [4])
    before = read()
    incremental(frame(classic_spark, [(6, 6)]), orders, **RANGE).save(str(tmp_path / "elsewhere"))
    assert read() == before
