"""Directories that loads save, and their readers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from loading import connection, frame, save_without_renames
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast import Connection
from holdfast.errors import InvalidInput, NotFound, VersionConflict
from holdfast.spark.loads.directory_reader import read_loads
from holdfast.spark.loads.incremental import Load, incremental


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


def test_a_saved_directory_has_a_manifest(
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


@pytest.mark.full
def test_a_repeated_backfill_replaces_its_directory(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    asset, target = store.asset_store(name="orders"), str(tmp_path / "out")
    for rows in ([(1, 1), (2, 2)], [(1, 1), (3, 2)]):
        df = frame(classic_spark, list(rows))
        incremental(df, asset, cursor="at", initial=1, end_value=2, closed="both").save(target)

    assert ids(classic_spark.read.parquet(target)) == [1, 3]
    assert [one.value["kind"] for one in asset.history("watermark/load")] == ["backfill"] * 2


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("INSERT INTO orders SELECT 1", "does not read the new rows"),
        ("SELECT 1 FROM {news}", "does not read the new rows"),
        ("SELECT '{{new}}'", "does not read the new rows"),
        ("SELECT '}' FROM {new}", "cannot be parsed: Single '}'"),
        ("SELECT from_json('{}', 'a int') FROM {new}", "has {}, for which no argument"),
    ],
)
def test_a_statement_that_does_not_read_the_new_rows_is_refused(
    classic_spark: SparkSession, store: Connection, query: str, message: str
) -> None:
    load = incremental(
        frame(classic_spark, [(1, 1)]), store.asset_store(name="orders"), cursor="at"
    )

    with pytest.raises(InvalidInput, match=message):
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


def test_before_the_first_load_no_rows_are_read(
    spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    asset, none, other = store.asset_store(name="orders"), tmp_path / "none", tmp_path / "other"
    spark.range(3).write.parquet(str(other))

    with pytest.raises(NotFound, match="`watermark` of asset `orders` has no loads"):
        read_loads(spark, asset, str(other))
    incremental(frame(spark, [(1, 1)]), asset, cursor="at").save(str(tmp_path / "out"))
    for path in (none, other):
        with pytest.raises(NotFound, match=f"{path} has no loads"):
            read_loads(spark, asset, str(path))


@pytest.mark.full
def test_an_abandoned_load_is_not_read(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, storage: str
) -> None:
    target, asset = str(tmp_path / "out"), store.asset_store(name="orders")
    incremental(frame(classic_spark, [(1, 1)]), asset, cursor="at").save(target)
    task = store.task_store("dag", "run", "load")
    two = frame(classic_spark, [(1, 1), (2, 2)])
    with pytest.raises(RuntimeError, match="crash"), task.attempt() as attempt:
        incremental(two, attempt.asset_store(name="orders"), cursor="at").save(target)
        raise RuntimeError("crash")

    asset.set("watermark", asset.get("watermark"))
    assert ids(read_loads(classic_spark, asset, target)) == [1]
    for number in (2, 3):
        rows = [(one, one) for one in range(1, number + 1)]
        incremental(frame(classic_spark, rows), asset, cursor="at").save(target)

    assert ids(read_loads(classic_spark, asset, target)) == [1, 2, 3]


@pytest.mark.full
def test_superseded_loads_stay_superseded_whatever_fails_after_them(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, storage: str
) -> None:
    target, asset = str(tmp_path / "out"), store.asset_store(name="orders")
    task = store.task_store("dag", "run", "load")

    def load(most: int, *, fails: bool = False) -> None:
        rows = frame(classic_spark, [(one, one) for one in range(1, most + 1)])
        with suppress(RuntimeError), task.attempt() as attempt:
            incremental(rows, attempt.asset_store(name="orders"), cursor="at").save(target)
            if fails:
                raise RuntimeError("crash")

    load(1)
    first = asset.history("watermark")[0].version
    load(2)
    load(3, fails=True)
    asset.rewind("watermark", version=first)
    load(4, fails=True)
    assert ids(read_loads(classic_spark, asset, target)) == [1]
    asset.delete("watermark/plan")
    assert ids(read_loads(classic_spark, asset, target)) == [1]
    with pytest.raises(InvalidInput, match="if the directory is a leftover, remove it"):
        load(4)
    asset.delete("watermark/plan")
    for number in (2, 3):
        shutil.rmtree(f"{target}/load=orders.watermark.{number:012}")
    load(4)
    load(5)

    assert ids(read_loads(classic_spark, asset, target)) == [1, 2, 3, 4, 5]


@pytest.mark.full
def test_of_two_concurrent_loads_the_one_that_wrote_last_succeeds(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, storage: str
) -> None:
    target, asset = str(tmp_path / "out"), store.asset_store(name="orders")
    before, after = frame(classic_spark, [(1, 1), (9, 9)]), [(1, 1), (5, 5), (9, 9)]
    first, second = (store.task_store("dag", "run", name) for name in ("first", "second"))

    with second.attempt() as slow:
        load = incremental(before, slow.asset_store(name="orders"), cursor="at")
        with pytest.raises(VersionConflict), first.attempt() as fast:
            rows = frame(classic_spark, after)
            incremental(rows, fast.asset_store(name="orders"), cursor="at").save(target)
            load.save(target)

    assert ids(read_loads(classic_spark, asset, target)) == [1, 9]
    assert asset.get("watermark/load")["rows"] == 2


@pytest.mark.full
def test_a_backfill_is_read_once_it_has_succeeded(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, storage: str
) -> None:
    target, asset = str(tmp_path / "out"), store.asset_store(name="orders")
    df = frame(classic_spark, [(number, number) for number in range(6)])
    tasks = [store.task_store("dag", "run", str(number)) for number in range(3)]

    def save(opened: Any, first: int) -> None:
        orders = opened.asset_store(name="orders")
        incremental(df, orders, cursor="at", initial=first, end_value=first + 2).save(target)

    with pytest.raises(RuntimeError, match="crash"), tasks[0].attempt() as failing:
        save(failing, 4)
        raise RuntimeError("crash")
    with tasks[1].attempt() as one, tasks[2].attempt() as other:
        save(one, 0)
        save(other, 2)
        with pytest.raises(NotFound, match="`watermark` of asset `orders` has no loads"):
            read_loads(classic_spark, asset, target)

    assert ids(read_loads(classic_spark, asset, target)) == [0, 1, 2, 3]


@pytest.mark.full
def test_a_load_restored_by_a_rewind_is_read_again(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, storage: str
) -> None:
    target, asset = str(tmp_path / "out"), store.asset_store(name="orders")

    def load(most: int) -> int:
        rows = [(one, one) for one in range(1, most + 1)]
        incremental(frame(classic_spark, rows), asset, cursor="at").save(target)
        return asset.history("watermark")[0].version

    first, second = load(1), load(3)
    asset.rewind("watermark", version=first)
    load(2)
    asset.rewind("watermark", version=second)

    assert ids(read_loads(classic_spark, asset, target)) == [1, 2, 3]
    load(4)
    assert ids(read_loads(classic_spark, asset, target)) == [1, 2, 3, 4]


@pytest.mark.full
def test_a_load_undone_by_a_rewind_is_not_read(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, storage: str
) -> None:
    target, asset = str(tmp_path / "out"), store.asset_store(name="orders")

    def load(most: int) -> None:
        rows = [(one, one) for one in range(1, most + 1)]
        incremental(frame(classic_spark, rows), asset, cursor="at").save(target)

    load(1)
    first = asset.history("watermark")[0].version
    load(3)
    asset.rewind("watermark", version=first)
    assert ids(read_loads(classic_spark, asset, target)) == [1]
    load(2)
    load(4)

    assert ids(read_loads(classic_spark, asset, target)) == [1, 2, 3, 4]


@pytest.mark.full
def test_a_retry_with_other_checks_or_another_format_replaces_what_was_saved(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    target, bad = str(tmp_path / "out"), tmp_path / "bad"
    df = frame(classic_spark, [(1, 1), (2, 2), (3, 3)])
    ways: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({"expect": {"where": "id < 3"}, "quarantine": bad}, {}),
        ({"expect": {"where": "id < 3"}, "quarantine": bad}, {"format": "orc"}),
    ]
    for rules, way in ways:
        task = store.task_store("dag", "run", "load")
        with pytest.raises(RuntimeError, match="crash"), task.attempt() as attempt:
            asset = attempt.asset_store(name="orders")
            load = incremental(df, asset, cursor="at", **rules)
            load.save(target, **way)
            raise RuntimeError("crash")

    assert ids(classic_spark.read.orc(f"{target}/{load.name}")) == [1, 2]
    assert ids(classic_spark.read.parquet(str(bad))) == [3]


@pytest.mark.full
def test_many_attempts_and_superseded_loads_are_read_with_one_condition(
    classic_spark: SparkSession,
    store: Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save_without_renames(monkeypatch)
    target, asset = str(tmp_path / "out"), store.asset_store(name="orders")
    incremental(frame(classic_spark, [(1, 1)]), asset, cursor="at").save(target)
    mark = asset.get("watermark")
    mark["load"] |= {"number": 9000, "tries": {str(number): "2" for number in range(1000, 3000)}}
    mark["load"]["out"] = [[number, number + 1] for number in range(4000, 4400, 4)]
    asset.set("watermark", mark)

    assert ids(read_loads(classic_spark, asset, target)) == [1]


def test_names_do_not_depend_on_how_the_asset_is_addressed(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    store.asset_store(name="clicks", uri="s3://lake/clicks", declare=True)
    by_name = store.asset_store(name="clicks")
    by_uri = store.asset_store(uri="s3://lake/clicks")
    df, target = frame(classic_spark, [(1, 1)]), str(tmp_path / "out")

    named = incremental(df, by_name, cursor="at").name
    incremental(df, by_uri, cursor="at").save(target)

    assert (Path(target) / named).is_dir()
    assert ids(read_loads(classic_spark, by_name, target)) == [1]


@pytest.mark.full
def test_backfills_of_different_ranges_have_different_names(
    classic_spark: SparkSession, store: Connection
) -> None:
    asset = store.asset_store(name="orders")

    def name(kind: str, first: Any, last: Any, **rules: Any) -> str:
        df = classic_spark.createDataFrame([], f"id long, at {kind}")
        return incremental(df, asset, cursor="at", initial=first, end_value=last, **rules).name

    names = [
        name("decimal(20,7)", "1.0000001", "20"),
        name("decimal(20,7)", "11", "20"),
        name("string", "a:b", "c"),
        name("string", "ab", "c"),
        name("string", "a.b", "c"),
        name("string", "a", "b.c"),
        name("string", "a", "b.both"),
        name("string", "a", "b", closed="both"),
        name("bigint", 11, 20),
        name("bigint", None, 20),
    ]

    assert len({*names}) == len(names) - 1  # the numbers 11 and 20, of two types
    assert name("decimal(20,7)", "11", "20") == name("decimal(20,7)", "11.00", "20.0")


def test_a_column_that_the_directories_would_hide_is_refused(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    df = frame(classic_spark, [(1, 1)], "Load long, at long")
    load = incremental(df, store.asset_store(name="orders"), cursor="at")

    with pytest.raises(InvalidInput, match="the column `Load` has the same name"):
        load.save(str(tmp_path / "out"))


@pytest.mark.full
def test_a_repeated_backfill_without_rows_is_empty(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, storage: str
) -> None:
    asset, target = store.asset_store(name="orders"), str(tmp_path / "out")
    for rows in ([(1, 1), (2, 2)], [(9, 9)]):
        df = frame(classic_spark, list(rows))
        incremental(df, asset, cursor="at", initial=1, end_value=5).save(target)

    assert ids(read_loads(classic_spark, asset, target)) == []


def test_a_retry_with_corrected_rows_replaces_what_was_saved(
    spark: SparkSession, store: Connection, tmp_path: Path, storage: str
) -> None:
    asset, target = store.asset_store(name="orders"), str(tmp_path / "out")
    task = store.task_store("dag", "run", "load")
    wrong, right = frame(spark, [(-1, 1)]), frame(spark, [(1, 1)])
    with pytest.raises(RuntimeError, match="crash"), task.attempt() as attempt:
        incremental(wrong, attempt.asset_store(name="orders"), cursor="at").save(target)
        raise RuntimeError("crash")

    with task.attempt() as attempt:
        incremental(right, attempt.asset_store(name="orders"), cursor="at").save(target)

    assert ids(read_loads(spark, asset, target)) == [1]


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_partitions_are_read_with_the_types_that_they_had(
    spark: SparkSession, store: Connection, tmp_path: Path, storage: str, format: str
) -> None:
    asset, target = store.asset_store(name="orders"), str(tmp_path / "out")
    row = ("007", date(2026, 1, 31), None, Decimal("1.50"), datetime(2026, 1, 31, 5), 1)  # noqa: DTZ001
    schema = "id string, day date, none string, price decimal(5,2), at timestamp_ntz, n int"
    df = spark.createDataFrame([row], schema)
    way: dict[str, Any] = {"format": format, "options": {"header": "true", "inferSchema": "true"}}

    incremental(df, asset, cursor="at").save(
        target, partition_by=["id", "day", "none", "price"], **way
    )

    found = read_loads(spark, asset, target, **way)
    found = found.select(*df.columns)
    assert found.drop("at").dtypes == df.drop("at").dtypes
    assert [one[:4] for one in found.collect()] == [row[:4]]


@pytest.mark.full
@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_added_and_widened_columns_are_read(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, storage: str, format: str
) -> None:
    asset, target = store.asset_store(name="orders"), str(tmp_path / "out")
    for schema, row in (
        ("at long, id int, old string", (1, 1, "x")),
        ("at long, ID long, new string", (2, 2**40, "y")),
    ):
        df = frame(classic_spark, [row], schema)
        incremental(df, asset, cursor="at").save(target, format=format)

    found = read_loads(classic_spark, asset, target, format=format).orderBy("at")

    assert found.columns == ["at", "ID", "old", "new", "load"]
    assert [tuple(one)[:-1] for one in found.collect()] == [
        (1, 1, "x", None),
        (2, 2**40, None, "y"),
    ]


@pytest.mark.full
def test_a_column_saved_as_two_types_is_an_error(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    asset, target = store.asset_store(name="orders"), str(tmp_path / "out")
    for schema, row in (("at long, x string", (1, "a")), ("at long, x array<int>", (2, [1]))):
        incremental(frame(classic_spark, [row], schema), asset, cursor="at").save(target)

    with pytest.raises(InvalidInput, match="saved the column `x` as string and as array"):
        read_loads(classic_spark, asset, target)


@pytest.mark.full
def test_rows_that_pass_a_corrected_check_are_no_longer_in_quarantine(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    target, bad = str(tmp_path / "out"), tmp_path / "bad"
    df = frame(classic_spark, [(1, 1), (2, 2), (3, 3)])

    def put_aside() -> list[int]:
        files = [str(file) for file in bad.rglob("*.parquet")]
        return ids(classic_spark.read.parquet(*files)) if files else []

    for most, rows in ((1, [2, 3]), (2, [3]), (3, [])):
        task = store.task_store("dag", "run", "load")
        rules: dict[str, Any] = {"expect": {"where": f"id <= {most}"}, "quarantine": bad}
        with pytest.raises(RuntimeError, match="crash"), task.attempt() as attempt:
            asset = attempt.asset_store(name="orders")
            incremental(df, asset, cursor="at", **rules).save(target)
            raise RuntimeError("crash")
        assert put_aside() == rows

    with store.task_store("dag", "run", "load").attempt() as attempt:
        asset = attempt.asset_store(name="orders")
        incremental(df, asset, cursor="at").write(lambda new: None)
    assert put_aside() == []
    assert "quarantine" not in store.asset_store(name="orders").get("watermark/load")


@pytest.mark.full
def test_a_backfill_during_a_load_keeps_its_columns(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, storage: str
) -> None:
    target, asset = str(tmp_path / "out"), store.asset_store(name="orders")
    load, backfill = (store.task_store("dag", "run", name) for name in ("load", "backfill"))
    with load.attempt() as one:
        df = frame(classic_spark, [(5, "x", 1)], "at long, x string, n int")
        incremental(df, one.asset_store(name="orders"), cursor="at").save(target)
        with backfill.attempt() as other:
            df = frame(classic_spark, [(1, "y", 2**40)], "at long, y string, n long")
            rules: dict[str, Any] = {"cursor": "at", "initial": 0, "end_value": 3}
            incremental(df, other.asset_store(name="orders"), **rules).save(target)

    rows = read_loads(classic_spark, asset, target).select("at", "x", "y", "n").collect()

    assert sorted(map(tuple, rows)) == [(1, None, "y", 2**40), (5, "x", None, 1)]


@pytest.mark.full
def test_a_script_that_dies_after_the_watermark_has_recorded_its_columns(
    classic_spark: SparkSession,
    store: Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, asset = str(tmp_path / "out"), store.asset_store(name="orders")
    incremental(frame(classic_spark, [(1, 1)], "at long, n int"), asset, cursor="at").save(target)
    wider = frame(classic_spark, [(2, 2**40, "x")], "at long, n long, x string")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Load, "_record", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.setattr(Load, "_manifest", lambda *_: {})
        incremental(wider, asset, cursor="at").save(target)

    assert incremental(wider, asset, cursor="at").save(target).rows == 0
    found = read_loads(classic_spark, asset, target).select("at", "n", "x").collect()
    assert sorted(map(tuple, found)) == [(1, 1, None), (2, 2**40, "x")]


@pytest.mark.full
def test_the_columns_of_an_undone_load_are_ignored(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, storage: str
) -> None:
    target, asset = str(tmp_path / "out"), store.asset_store(name="orders")

    def load(at: int, x: Any, kind: str) -> None:
        df = frame(classic_spark, [(at, x)], f"at long, x {kind}")
        incremental(df, asset, cursor="at").save(target)

    load(1, 1, "int")
    first = asset.history("watermark")[0].version
    load(2, "wrong", "string")
    asset.rewind("watermark", version=first)
    load(2, 2, "int")

    found = read_loads(classic_spark, asset, target).select("at", "x").collect()
    assert sorted(map(tuple, found)) == [(1, 1), (2, 2)]


@pytest.mark.full
@pytest.mark.parametrize("again", ["saved", "written"])
def test_a_load_saved_elsewhere_by_a_failed_attempt_is_not_read(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, storage: str, again: str
) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    asset, df = store.asset_store(name="orders"), frame(classic_spark, [(1, 1), (2, 2)])
    incremental(frame(classic_spark, [(0, 0)]), asset, cursor="at").save(first)
    task = store.task_store("dag", "run", "load")
    with pytest.raises(RuntimeError, match="crash"), task.attempt() as attempt:
        incremental(df, attempt.asset_store(name="orders"), cursor="at").save(first)
        raise RuntimeError("crash")

    load = incremental(df, asset, cursor="at", initial=2)
    if again == "saved":
        load.save(second)
        assert ids(read_loads(classic_spark, asset, second)) == [2]
    else:
        load.write(lambda new: None)

    assert ids(read_loads(classic_spark, asset, first)) == [0]


def test_rows_without_any_cursor_value_cannot_be_saved(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    df = frame(classic_spark, [(1, None)])
    rules: dict[str, Any] = {"cursor": "at", "on_null": "include", "primary_key": ()}
    load = incremental(df, store.asset_store(name="orders"), **rules)

    with pytest.raises(InvalidInput, match="no row .* has a cursor value"):
        load.save(str(tmp_path / "out"))
    assert load.write(lambda new: None).rows == 1


@pytest.mark.full
def test_a_manually_set_and_copied_watermark_does_not_determine_the_loads(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    target, asset = str(tmp_path / "out"), store.asset_store(name="orders")
    incremental(frame(classic_spark, [(1, 1)]), asset, cursor="at").save(target)
    asset.set("watermark", {"cursor": "at", "type": "integer", "value": 5})
    rules: dict[str, Any] = {"cursor": "at", "initial": 1, "end_value": 2}
    incremental(frame(classic_spark, [(1, 1)]), asset, **rules).save(target)
    with holdfast.connect(f"sqlite:///{tmp_path / 'other.db'}") as other:
        moved = other.asset_store(name="orders", declare=True)
        for key, value in asset.items():
            moved.set(key, value)

        with pytest.raises(InvalidInput, match="cannot determine which loads count"):
            read_loads(classic_spark, moved, target)
        assert incremental(frame(classic_spark, [(6, 6)]), moved, cursor="at").save(target).rows
        with pytest.raises(InvalidInput, match="cannot determine which loads count"):
            read_loads(classic_spark, moved, target)
        moved.set("watermark", moved.get("watermark") | {"load": {"number": 1}})
        assert ids(read_loads(classic_spark, moved, target)) == [1, 1, 6]


def test_a_backfill_with_long_names_has_a_short_directory(
    classic_spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    asset = store.asset_store(name="ä" * 300, declare=True)
    df = classic_spark.createDataFrame([("x", "a" * 90)], f"id string, `{'c' * 90}` string")
    rules: dict[str, Any] = {"cursor": "c" * 90, "initial": "a" * 60, "end_value": "b" * 60}

    load = incremental(df, asset, key="k" * 90, **rules)

    assert len(load.name) < 250
    assert load.save(str(tmp_path / "out")).rows == 1
