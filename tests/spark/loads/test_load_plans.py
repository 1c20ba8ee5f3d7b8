"""Plans of loads: a retry has the same range and the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
from loading import connection, frame
from pyspark.sql import DataFrame, SparkSession

from holdfast import Connection
from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput, SourceChanged, VersionConflict
from holdfast.spark.loads.incremental import Load, incremental
from holdfast.spark.session.operations import other_session


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Connection]:
    with connection(tmp_path) as opened:
        opened.asset_store(name="orders", declare=True)
        yield opened


@pytest.fixture
def orders(store: Connection) -> AssetStore:
    return store.asset_store(name="orders")


def crash(new: DataFrame) -> None:
    raise RuntimeError("crash")


def ids(df: DataFrame) -> list[int]:
    return sorted(row.id for row in df.collect())


@pytest.fixture
def failed(orders: AssetStore) -> Callable[..., Load]:
    """Return a function that runs a load whose function fails."""

    def fail(df: DataFrame, **rules: Any) -> Load:
        load = incremental(df, orders, cursor="at", **rules)
        with pytest.raises(RuntimeError, match="crash"):
            load.write(crash)
        return load

    return fail


@pytest.mark.full
def test_a_retry_has_the_rows_of_the_previous_attempt(
    spark: SparkSession, orders: AssetStore, failed: Callable[..., Load]
) -> None:
    rules: dict[str, Any] = {"lag": 5, "primary_key": "id"}
    first = failed(frame(spark, [(1, 1), (2, 9)]), **rules)
    more = frame(spark, [(1, 1), (2, 9), (3, 8), (4, 12), (5, 9)])

    second = incremental(more, orders, cursor="at", **rules)

    assert (second.name, second.number, second.end) == (first.name, first.number, 9)
    assert ids(second.df) == [1, 2]
    second.write(lambda new: new.collect())
    third = incremental(more, orders, cursor="at", **rules)
    assert third.name > second.name
    assert ids(third.df) == [3, 4, 5]


def test_a_retry_with_another_until_ends_at_the_planned_end(
    classic_spark: SparkSession, orders: AssetStore, failed: Callable[..., Load]
) -> None:
    df = frame(classic_spark, [(number, number) for number in range(10)])
    failed(df, until=4)

    assert incremental(df, orders, cursor="at", until=7).end == 4


def test_a_listing_that_is_older_than_the_plan_is_an_error(
    spark: SparkSession, orders: AssetStore, failed: Callable[..., Load], tmp_path: Path
) -> None:
    files = f"{tmp_path}/source"
    frame(spark, [(1, 1), (2, 2)]).write.parquet(files)
    older = spark.read.parquet(files)
    older.count()
    frame(spark, [(3, 3)]).write.mode("append").parquet(files)
    failed(spark.read.parquet(files))

    with pytest.raises(SourceChanged, match="ends at 3, which no row of this DataFrame reaches"):
        incremental(older, orders, cursor="at")
    assert incremental(spark.read.parquet(files), orders, cursor="at").write(ids).rows == 3


def test_a_load_with_other_rules_replaces_one_that_did_not_finish(
    classic_spark: SparkSession,
    orders: AssetStore,
    failed: Callable[..., Load],
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = failed(frame(classic_spark, [(1, 1)]))

    second = incremental(
        frame(classic_spark, [(1, 1), (2, 2)]), orders, cursor="at", primary_key="id"
    )

    assert second.name == first.name
    assert second.end == 2
    assert "replacing an unfinished load that had other rules" in caplog.text


def test_a_number_that_a_table_may_have_keeps_its_rows(
    classic_spark: SparkSession, orders: AssetStore
) -> None:
    one, two = frame(classic_spark, [(1, 1)]), frame(classic_spark, [(1, 1), (2, 2)])
    first = incremental(one, orders, cursor="at")
    options = first.txn_options()

    assert options == {"txnAppId": "holdfast.orders.watermark", "txnVersion": "0"}
    with pytest.raises(InvalidInput, match="had other rules, and may already be in a table"):
        incremental(two, orders, cursor="at", primary_key="id")
    retry = incremental(two, orders, cursor="at")
    assert retry.txn_options() == options
    assert ids(retry.df) == [1]
    retry.write(lambda new: None)
    following = incremental(two, orders, cursor="at")
    assert int(following.txn_options()["txnVersion"]) == following.number > 0


def test_an_empty_load_uses_no_number(classic_spark: SparkSession, orders: AssetStore) -> None:
    one = frame(classic_spark, [(1, 1)])
    nothing = incremental(one.where("id > 1"), orders, cursor="at")
    assert nothing.txn_options() == {}
    nothing.write(lambda new: None)

    load = incremental(one, orders, cursor="at")
    assert load.txn_options()["txnVersion"] == "0"
    load.write(lambda new: None)
    again = incremental(one, orders, cursor="at")
    assert again.txn_options() == {}
    again.write(lambda new: None)
    assert len(orders.history("watermark")) == 1


@pytest.mark.full
def test_repeated_rows_are_a_load_of_their_own(
    classic_spark: SparkSession, orders: AssetStore
) -> None:
    """Number repeated rows anew, or a table would take them for a repetition of the first load."""
    rules: dict[str, Any] = {"cursor": "at", "lag": 5, "primary_key": ()}
    names = []
    for _ in range(3):
        load = incremental(frame(classic_spark, [(1, 1)]), orders, **rules)
        load.write(lambda new: None)
        names.append(load.name)

    assert len(set(names)) == 3


def test_two_concurrent_loads_have_one_plan(
    classic_spark: SparkSession, orders: AssetStore
) -> None:
    one, two = frame(classic_spark, [(1, 1)]), frame(classic_spark, [(1, 1), (2, 2)])
    slow, fast = incremental(one, orders, cursor="at"), incremental(two, orders, cursor="at")
    same = incremental(two, orders, cursor="at")
    fast.txn_options()

    assert same.txn_options() == fast.txn_options()
    with pytest.raises(VersionConflict, match="has started with another range"):
        slow.write(lambda new: pytest.fail("it must not be written"))


@pytest.mark.full
def test_names_differ_between_assets_and_keys_and_after_a_deletion(
    classic_spark: SparkSession, store: Connection, orders: AssetStore
) -> None:
    df = frame(classic_spark, [(1, 1)])
    other = store.asset_store(name="orders/ü", declare=True)
    names = [
        incremental(df, orders, cursor="at").name,
        incremental(df, orders, cursor="at", key="us").name,
        incremental(df, orders, cursor="at", key="u/s").name,
        incremental(df, other, cursor="at").name,
    ]
    incremental(df, orders, cursor="at").write(lambda new: None)
    orders.delete("watermark")
    names.append(incremental(df, orders, cursor="at").name)

    assert len(set(names)) == 5
    assert names[0] == "load=orders.watermark.000000000000"
    assert names[4] > names[0]


@pytest.mark.full
def test_a_source_that_has_more_rows_than_were_counted_is_an_error(
    classic_spark: SparkSession, orders: AssetStore
) -> None:
    options = {"url": "jdbc:derby:memory:growing;create=true", "dbtable": "growing"}
    frame(classic_spark, [(1, 1), (2, 2)]).write.format("jdbc").options(**options).save()
    table = classic_spark.read.format("jdbc").options(**options).load()
    load = incremental(table, orders, cursor="at", materialize=False)
    frame(classic_spark, [(3, 2)]).write.format("jdbc").options(**options).mode("append").save()

    with pytest.raises(SourceChanged, match="had 2 rows and has 3 now"):
        load.write(lambda new: new.collect())
    assert orders.entry("watermark") is None


def test_an_invalid_plan_is_an_error(classic_spark: SparkSession, orders: AssetStore) -> None:
    orders.set("watermark/plan", "mine")

    with pytest.raises(InvalidInput, match="`watermark/plan` of asset `orders` is mine"):
        incremental(frame(classic_spark, [(1, 1)]), orders, cursor="at")


@pytest.mark.full
def test_a_load_waits_for_the_running_write_of_a_dead_one_of_another_run(
    spark: SparkSession, orders: AssetStore, request: pytest.FixtureRequest
) -> None:
    if "[local]" in request.node.name:
        pytest.skip("a session of its own is a matter of Spark Connect")
    session: Any = spark
    other: Any = other_session(session, str(uuid4()))
    slowly = "id long, at long"

    def sleep(rows: Iterator[Any]) -> Iterator[Any]:
        for row in rows:
            time.sleep(3)
            yield row

    ended: list[float] = []

    def write_and_die(new: DataFrame) -> None:
        def write() -> None:
            new.coalesce(1).mapInArrow(sleep, slowly).collect()
            ended.append(time.monotonic())

        Thread(target=write).start()
        time.sleep(1)
        raise RuntimeError("crash")

    with pytest.raises(RuntimeError, match="crash"):
        incremental(frame(other, [(1, 1)]), orders, cursor="at").write(write_and_die)
    began: list[float] = []
    load = incremental(frame(spark, [(1, 1)]), orders, cursor="at")
    load.write(lambda new: began.append(time.monotonic()))
    other.stop()

    assert ended[0] < began[0] + 1  # the thread learns of the end of the job a moment later
