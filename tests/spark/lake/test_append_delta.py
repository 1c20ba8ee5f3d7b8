"""Appends of loads to Delta tables: exactly once, or a clear error with nothing changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from appending import disturb, ids, load_of, new_table, numbers
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from loading import connection
from pyspark.sql import DataFrame, SparkSession

from holdfast import Connection
from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput, InvalidType, NotSupported, TableChanged, VersionConflict
from holdfast.spark import append, delta, incremental, portions
from holdfast.spark.lake import files
from holdfast.spark.lake.delta import DeltaLake, OpenDelta
from holdfast.spark.lake.identity import sequence_of
from holdfast.spark.lake.table import CommitConflict, UnknownOutcome
from holdfast.spark.loads.bounding import Bounding


class Crash(Exception):
    """The end of an attempt, as if its process had died."""


def crash() -> None:
    raise Crash


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Connection]:
    with connection(tmp_path) as opened:
        opened.asset_store(name="orders", declare=True)
        yield opened


@pytest.fixture
def orders(store: Connection) -> AssetStore:
    return store.asset_store(name="orders")


@pytest.fixture
def facts(tmp_path: Path) -> DeltaLake:
    return new_table(tmp_path)


def version_of(table: DeltaLake) -> int:
    return int(DeltaTable(table.location).version())


def crash_at(step: str, spark: SparkSession, asset: AssetStore, table: DeltaLake, n: int) -> None:
    disturb(step, crash)
    with pytest.raises(Crash):
        load_of(spark, asset, n).append(table)


def data_files(table: DeltaLake) -> set[str]:
    return {
        str(path.relative_to(table.location)) for path in Path(table.location).rglob("*.parquet")
    }


def test_loads_append_the_rows_that_are_new(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake
) -> None:
    results = [load_of(spark, orders, count).append(facts) for count in (5, 9, 9)]

    assert [(result.rows, result.to) for result in results] == [(5, 4), (4, 8), (0, 8)]
    assert ids(facts) == [*range(9)]
    assert orders.get("watermark")["value"] == 8
    assert version_of(facts) == 2


def test_the_version_is_that_of_the_commit(
    spark: SparkSession, store: Connection, facts: DeltaLake
) -> None:
    task = store.task_store("dag", "run", "task")

    assert [append(numbers(spark, 3), facts, task, key=key).version for key in "ab"] == ["1", "2"]


def of_part(spark: SparkSession, part: int, *ids: int) -> DataFrame:
    return spark.createDataFrame(
        [(id, part, "new") for id in ids], "id long, part long, name string"
    )


def test_an_append_replaces_a_partition_in_the_same_commit(
    spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    task = store.task_store("dag", "run", "task")
    facts = new_table(tmp_path, partition_by="part")
    append(numbers(spark, 9), facts, task)
    one = delta(facts.location, replace={"part": 1})

    with pytest.raises(InvalidInput, match="has the part 2, but replace= says 1"):
        append(of_part(spark, 2, 50), one, task, key="wrong")
    disturb("confirmed", lambda: DeltaTable(facts.location).optimize.compact())
    assert append(of_part(spark, 1, 10, 11), one, task, key="first").version == "3"
    disturb("confirmed", lambda: append(of_part(spark, 1, 12), facts, task, key="other"))
    append(of_part(spark, 1, 13), one, task, key="second")
    assert ids(facts) == [0, 2, 3, 5, 6, 8, 13]
    append(of_part(spark, 1), one, task, key="third")

    assert ids(facts) == [0, 2, 3, 5, 6, 8]
    with pytest.raises(InvalidInput, match="by which the Delta table .* is not partitioned"):
        append(of_part(spark, 1), delta(facts.location, replace={"name": "x"}), task, key="fourth")


def test_values_of_replace_have_the_type_of_their_column(
    spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    task = store.task_store("dag", "run", "task")
    facts = delta(tmp_path / "facts", create=True, partition_by=["day", "price"])
    rows = "id long, day date, price decimal(5, 2)"
    old = [(1, date(1969, 1, 31), Decimal(2)), (2, date(2026, 1, 31), Decimal(3))]
    append(spark.createDataFrame(old, rows), facts, task)
    for number, (day, price) in enumerate([(date(1969, 1, 31), 2), ("1969-01-31", Decimal("2.0"))]):
        one = delta(facts.location, replace={"day": day, "price": price})
        new = spark.createDataFrame([(10 + number, date(1969, 1, 31), Decimal(2))], rows)
        append(new, one, task, key=f"key {number}")

    assert ids(facts) == [2, 11]
    append(
        spark.createDataFrame([], rows), delta(facts.location, replace={"price": 3}), task, key="x"
    )
    assert ids(facts) == [11]
    for bad in (Decimal("2.001"), "two", date(2026, 1, 31)):
        with pytest.raises(InvalidInput, match="replace= says .* for `price`"):
            append(new, delta(facts.location, replace={"price": bad}), task, key="bad")


def test_a_commit_names_its_load(spark: SparkSession, orders: AssetStore, facts: DeltaLake) -> None:
    new = load_of(spark, orders, 5)
    new.append(facts)

    [commit, _] = DeltaTable(facts.location).history()
    stamp = commit["holdfast"]
    assert stamp["sequence"] == sequence_of(orders, "watermark")
    assert stamp["number"] == new.number
    assert stamp["rows"] == 5
    assert stamp["watermark"]["value"] == 4
    assert f"load={stamp['place'].split('/')[1]}" == new.name
    assert all(path.startswith(f"{stamp['place']}/") for path in data_files(facts))


@pytest.mark.parametrize("step", ["planned", "written", "confirmed"])
def test_a_retry_writes_what_an_attempt_did_not_commit(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake, step: str
) -> None:
    load_of(spark, orders, 3).append(facts)
    crash_at(step, spark, orders, facts, 7)

    assert ids(facts) == [*range(3)]
    assert load_of(spark, orders, 12).append(facts).rows == 4
    assert ids(facts) == [*range(7)]
    assert load_of(spark, orders, 12).append(facts).rows == 5
    assert ids(facts) == [*range(12)]


@pytest.mark.parametrize("step", ["committed", "appended"])
def test_a_retry_adopts_a_commit_and_reads_nothing(
    spark: SparkSession,
    orders: AssetStore,
    facts: DeltaLake,
    step: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crash_at(step, spark, orders, facts, 7)
    assert orders.get("watermark") is None
    before = data_files(facts)

    with monkeypatch.context() as patch:
        patch.setattr(Bounding, "result", crash)
        new = load_of(spark, orders, 12)
        assert new.append(facts).rows == 7
        assert (new.rows, new.end, new.number) == (7, 6, 0)
    assert data_files(facts) == before
    assert orders.get("watermark")["value"] == 6
    load_of(spark, orders, 12).append(facts)
    assert ids(facts) == [*range(12)]


def test_the_rows_of_an_adopted_load_are_those_of_its_plan(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake
) -> None:
    crash_at("committed", spark, orders, facts, 7)

    new = load_of(spark, orders, 12)
    new.append(facts)

    assert sorted(row.id for row in new.df.collect()) == [*range(7)]


def test_the_watermark_waits_for_the_success_of_the_attempt(
    spark: SparkSession, store: Connection, orders: AssetStore, facts: DeltaLake
) -> None:
    task = store.task_store("dag", "run", "load")

    with pytest.raises(Crash), task.attempt() as attempt:
        load_of(spark, attempt.asset_store(name="orders"), 5).append(facts)
        raise Crash
    assert orders.get("watermark") is None
    with task.attempt() as attempt:
        assert load_of(spark, attempt.asset_store(name="orders"), 9).append(facts).rows == 5

    assert orders.get("watermark")["value"] == 4
    assert ids(facts) == [*range(5)]


def test_other_writers_commit_in_between(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake
) -> None:
    load_of(spark, orders, 3).append(facts)
    other = DeltaTable(facts.location)

    disturb("confirmed", lambda: add_row(facts, 100))
    load_of(spark, orders, 6).append(facts)
    other.optimize.compact()
    load_of(spark, orders, 9).append(facts)

    assert ids(facts) == [*range(9), 100]


def add_row(table: DeltaLake, number: int) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    rows = {"id": [number], "part": [0], "name": ["other"]}
    write_deltalake(table.location, pa.table(rows), mode="append")


def test_columns_that_change_while_rows_are_written_end_the_attempt(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake
) -> None:
    load_of(spark, orders, 3).append(facts)
    note = Field("note", PrimitiveType("string"))
    disturb("confirmed", lambda: DeltaTable(facts.location).alter.add_columns([note]))

    with pytest.raises(TableChanged, match="the columns of the Delta table .* have changed"):
        load_of(spark, orders, 6).append(facts)
    with pytest.raises(InvalidInput, match=r"`note` \(string\) of the table is missing"):
        load_of(spark, orders, 6).append(facts)
    assert ids(facts) == [*range(3)]
    assert orders.get("watermark")["value"] == 2


def test_portions_are_appended_one_after_the_other(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake
) -> None:
    def append_portions() -> None:
        for new in portions(numbers(spark, 12), orders, cursor="id", max_rows=5):
            new.append(facts)

    disturb("committed", crash)
    with pytest.raises(Crash):
        append_portions()
    append_portions()

    assert ids(facts) == [*range(12)]


def test_a_commit_with_a_lost_answer_is_found(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_of(spark, orders, 3).append(facts)
    commit, losses = OpenDelta.append, [UnknownOutcome, CommitConflict]

    def lose(self: OpenDelta, *arguments: Any) -> str:
        version = commit(self, *arguments)
        if losses:
            raise losses.pop()("the answer is lost")
        return version

    monkeypatch.setattr(OpenDelta, "append", lose)
    assert load_of(spark, orders, 6).append(facts).rows == 3
    assert load_of(spark, orders, 9).append(facts).rows == 3

    assert ids(facts) == [*range(9)]
    assert losses == []


def test_a_commit_that_an_earlier_attempt_makes_late_is_adopted(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_of(spark, orders, 3).append(facts)
    commit, held = OpenDelta.append, []

    def hold(*arguments: Any) -> str:
        held.append(arguments)
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(OpenDelta, "append", hold)
        load_of(spark, orders, 7).append(facts)
    before = data_files(facts)
    disturb("confirmed", lambda: commit(*held[0]))
    assert load_of(spark, orders, 7).append(facts).rows == 4

    assert ids(facts) == [*range(7)]
    assert data_files(facts) == before  # those of the second attempt are removed
    with pytest.raises(CommitConflict):
        commit(*held[0])


@pytest.mark.parametrize("is_there", [False, True])
def test_a_commit_between_the_look_and_a_change_of_the_table_is_found(
    spark: SparkSession, store: Connection, orders: AssetStore, tmp_path: Path, is_there: bool
) -> None:
    facts = delta(tmp_path / "facts", create=True, evolve=True)
    if is_there:
        append(spark.range(100, 101), facts, store.task_store("dag", "run", "task"))
    disturb("looked", lambda: crash_at("appended", spark, orders, facts, 5))

    with pytest.raises(VersionConflict):
        load_of(spark, orders, 5).append(facts)
    assert load_of(spark, orders, 5).append(facts).rows == 5

    assert ids(facts) == [*range(5), *([100] if is_there else [])]


def test_a_restored_table_does_not_get_the_rows_again_by_itself(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake
) -> None:
    load_of(spark, orders, 3).append(facts)
    crash_at("committed", spark, orders, facts, 7)
    DeltaTable(facts.location).restore(1)

    with pytest.raises(TableChanged, match="restored to an earlier version") as caught:
        load_of(spark, orders, 7).append(facts)
    assert "`watermark/plan`" in caught.value.hint
    orders.delete("watermark/plan")
    assert load_of(spark, orders, 7).append(facts).rows == 4
    assert ids(facts) == [*range(7)]


def test_a_restore_that_is_undone_counts_as_none(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake
) -> None:
    crash_at("committed", spark, orders, facts, 7)
    table = DeltaTable(facts.location)
    table.restore(0)
    table.restore(1)

    assert load_of(spark, orders, 9).append(facts).rows == 7
    assert ids(facts) == [*range(7)]


def test_a_restore_without_a_rewind_leaves_no_gap(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake
) -> None:
    for count in (3, 6):
        load_of(spark, orders, count).append(facts)
    DeltaTable(facts.location).restore(1)

    with pytest.raises(TableChanged, match="restored to an earlier version") as caught:
        load_of(spark, orders, 9).append(facts)
    assert "rewind the watermark" in caught.value.hint
    orders.rewind("watermark", version=orders.history("watermark")[-1].version)
    load_of(spark, orders, 9).append(facts)

    assert ids(facts) == [*range(9)]


def test_a_rewound_watermark_does_not_append_rows_twice(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake
) -> None:
    for count in (3, 6, 9):
        load_of(spark, orders, count).append(facts)
    first = orders.history("watermark")[-1].version
    orders.rewind("watermark", version=first)

    with pytest.raises(TableChanged, match="does not know as succeeded"):
        load_of(spark, orders, 12).append(facts)
    assert ids(facts) == [*range(9)]
    DeltaTable(facts.location).restore(1)
    load_of(spark, orders, 12).append(facts)
    assert ids(facts) == [*range(12)]


def test_a_load_that_was_given_up_after_its_commit_is_found(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake
) -> None:
    crash_at("committed", spark, orders, facts, 7)
    orders.delete("watermark/plan")

    with pytest.raises(TableChanged, match="does not know as succeeded"):
        load_of(spark, orders, 9).append(facts)
    assert ids(facts) == [*range(7)]


def test_two_stores_append_to_one_table(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    with connection(tmp_path / "other") as other:
        theirs = other.asset_store(name="orders", declare=True)
        for count in (3, 6):
            load_of(spark, orders, count).append(facts)
            load_of(spark, theirs, count).append(facts)

    assert ids(facts) == sorted([*range(6), *range(6)])


def test_expired_history_is_adopted_with_a_warning(
    spark: SparkSession,
    orders: AssetStore,
    facts: DeltaLake,
    caplog: pytest.LogCaptureFixture,
) -> None:
    load_of(spark, orders, 3).append(facts)
    crash_at("committed", spark, orders, facts, 7)
    add_row(facts, 100)
    DeltaTable(facts.location).create_checkpoint()
    for version in range(3):
        Path(facts.location, "_delta_log", f"{version:020}.json").unlink()

    with caplog.at_level(logging.WARNING, "holdfast"):
        result = load_of(spark, orders, 9).append(facts)

    assert result.rows is None
    assert "unverified" in caplog.text
    assert orders.get("watermark")["value"] == 6
    assert load_of(spark, orders, 9).append(facts).rows == 2
    assert ids(facts) == [*range(9), 100]


def test_a_retry_goes_to_the_same_table(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake, tmp_path: Path
) -> None:
    crash_at("committed", spark, orders, facts, 7)

    with pytest.raises(InvalidInput, match="may already have appended its rows to the Delta table"):
        load_of(spark, orders, 7).append(delta(tmp_path / "other", create=True))
    with pytest.raises(InvalidInput, match="may already have appended its rows"):
        load_of(spark, orders, 7).save(str(tmp_path / "directory"))


def test_a_load_is_appended_once(spark: SparkSession, orders: AssetStore, facts: DeltaLake) -> None:
    new = load_of(spark, orders, 3)
    new.append(facts)

    with pytest.raises(InvalidInput, match="already been written"):
        new.append(facts)
    with pytest.raises(InvalidType, match="append got str"):
        new.append("/lake/facts")  # type: ignore[arg-type]


def test_of_two_loads_at_once_one_wins(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake
) -> None:
    one, other = load_of(spark, orders, 5), load_of(spark, orders, 5)
    one.append(facts)

    with pytest.raises(VersionConflict):
        other.append(facts)
    assert ids(facts) == [*range(5)]


def test_a_backfill_and_rows_that_are_read_again_are_refused(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake
) -> None:
    df = numbers(spark, 5)
    with pytest.raises(InvalidInput, match="a backfill cannot be appended"):
        incremental(df, orders, cursor="id", initial=0, end_value=3).append(facts)
    with pytest.raises(InvalidInput, match="read again"):
        incremental(df, orders, cursor="id", lag=1, primary_key=()).append(facts)


def test_late_rows_are_appended_once(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake
) -> None:
    def load(*rows: int) -> None:
        df = spark.createDataFrame([(one, one) for one in rows], "id long, at long")
        rules: dict[str, Any] = {"lag": 10, "primary_key": "id"}
        incremental(df, orders, cursor="at", **rules).append(facts)

    load(1, 5, 9)
    load(1, 3, 5, 9, 12)
    assert ids(facts) == [1, 3, 5, 9, 12]


def test_rows_that_fail_a_check_are_quarantined_and_the_others_appended(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake, tmp_path: Path
) -> None:
    bad = tmp_path / "bad"

    def load(count: int) -> Any:
        rules: dict[str, Any] = {"expect": {"where": "id != 4"}, "quarantine": bad}
        return incremental(numbers(spark, count), orders, cursor="id", **rules)

    disturb("committed", crash)
    with pytest.raises(Crash):
        load(7).append(facts)
    result = load(9).append(facts)

    assert (result.rows, result.quarantined) == (6, 1)
    assert ids(facts) == [0, 1, 2, 3, 5, 6]
    assert [row.id for row in spark.read.parquet(str(bad)).collect()] == [4]


def test_both_writers_write_the_same(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_of(spark, orders, 5).append(facts)
    monkeypatch.setattr(files, "renames", lambda spark, path: False)
    load_of(spark, orders, 10).append(facts)

    writers = [commit["holdfast"]["writer"] for commit in DeltaTable(facts.location).history(2)]
    assert writers == [files.ARROW, files.SPARK]
    assert ids(facts) == [*range(10)]


def test_a_table_is_created_only_on_request(
    spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="does not exist") as caught:
        load_of(spark, orders, 3).append(delta(tmp_path / "facts"))
    assert "create=True" in caught.value.hint
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(InvalidInput, match=r"contains notes.txt, and no table"):
        load_of(spark, orders, 3).append(delta(tmp_path / "other", create=True))


def test_partitions_are_those_of_the_table(
    spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    load_of(spark, orders, 6).append(new_table(tmp_path, partition_by="part"))

    table = DeltaTable(tmp_path / "facts")
    assert table.metadata().partition_columns == ["part"]
    assert sorted(map(str, table.partitions())) == [f"{{'part': '{n}'}}" for n in range(3)]
    load_of(spark, orders, 9).append(delta(tmp_path / "facts"))
    with pytest.raises(InvalidInput, match="is partitioned by `part`"):
        load_of(spark, orders, 12).append(delta(tmp_path / "facts", partition_by="name"))
    assert ids(delta(tmp_path / "facts")) == [*range(9)]


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.setTransactionRetentionDuration": "interval 1 days"},
        {"delta.columnMapping.mode": "name"},
    ],
)
def test_tables_that_an_append_would_violate_are_refused(
    spark: SparkSession, orders: AssetStore, tmp_path: Path, properties: dict[str, str]
) -> None:
    import pyarrow as pa

    schema = pa.schema({"id": pa.int64(), "part": pa.int64(), "name": pa.string()})
    DeltaTable.create(
        tmp_path / "facts", schema, configuration=properties, raise_if_key_not_exists=False
    )

    with pytest.raises(NotSupported, match=next(iter(properties))):
        load_of(spark, orders, 3).append(delta(tmp_path / "facts"))


def test_partitions_that_deltalake_cannot_read_are_refused(
    spark: SparkSession, store: Connection, tmp_path: Path
) -> None:
    facts = delta(tmp_path / "facts", create=True, partition_by="price")
    rows = spark.createDataFrame([(1, Decimal("-0.50"))], "id long, price decimal(5, 2)")

    with pytest.raises(InvalidInput, match=r"has -0\.50 in the partition column `price`"):
        append(rows, facts, store.task_store("dag", "run", "task"))

    assert DeltaTable(facts.location).version() == 0


def test_nothing_new_commits_nothing(
    spark: SparkSession, orders: AssetStore, facts: DeltaLake
) -> None:
    load_of(spark, orders, 0).append(facts)

    assert not Path(facts.location).exists()
