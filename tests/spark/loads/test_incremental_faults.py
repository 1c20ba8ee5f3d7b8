"""Refused loads, and errors around a load. The kind of Spark does not matter here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from loading import Table, connection, frame
from pyspark.sql import DataFrame, SparkSession

from holdfast.accessor.asset_store import AssetStore
from holdfast.accessor.binding import Rules
from holdfast.errors import HoldfastError, InvalidInput, InvalidType, VersionConflict
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import AssetScope
from holdfast.sdk.asset_stores import AssetStores
from holdfast.spark.loads.incremental import Loaded, incremental, portions


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[AssetStore]:
    with connection(tmp_path) as opened:
        yield opened.asset_store(name="orders", declare=True)


@pytest.fixture
def df(local_spark: SparkSession) -> DataFrame:
    return frame(local_spark, [(1, 1), (2, 2), (3, 2)])


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"cursor": "when"}, "no column of that name"),
        ({"cursor": 7}, "name of a column"),
        ({"primary_key": ["id", "nr"]}, "the primary key is `nr`"),
        ({"initial": "1"}, "initial is '1'"),
        ({"lag": 1}, "rows that are already loaded are read again"),
        ({"on_null": "include"}, "every load would load the rows"),
        ({"on_null": "ignore"}, "on_null is 'ignore'"),
        ({"closed": "start"}, "closed is 'start'"),
        ({"closed": "both"}, "applies to the end of a backfill, and there is no"),
        ({"end_value": 5, "lag": 1, "primary_key": "id"}, "a backfill has no lag"),
        ({"end_value": 5, "initial": 6}, "end_value 5 is before initial 6"),
        ({"remember": 0}, "remember is 0"),
        ({"remember": "many"}, "remember is 'many'"),
        ({"primary_key": 5}, "primary_key is 5"),
        ({"primary_key": {"id"}}, "primary_key is {'id'}"),
        ({"key": ""}, "the key is empty"),
        ({"key": None}, "a key must be text"),
        ({"key": None, "end_value": 5}, "a key must be text"),
        ({"initial": Decimal("1e999999")}, "initial is Decimal"),
        ({"expect": {"where": "id < unix_timestamp()"}}, "may depend on the clock, on randomness"),
        ({"expect": {"where": "max(id) < 9"}}, "is not a condition on the rows"),
        (
            {"expect": {"where": "row_number() OVER (ORDER BY id) < 9"}},
            "is not a condition on the ro",
        ),
        ({"until": "5"}, "until is '5'"),
        ({"until": timedelta(hours=1)}, "until is relative to now"),
        ({"until": timedelta(hours=-1)}, "which is in the future"),
        ({"expect": {"rows": (5, 1)}}, r"expect rows is \(5, 1\), which no value satisfies"),
        ({"expect": {"range": {"id": (5, 1)}}}, r"expect range id is \(5, 1\), which no value"),
        ({"expect": {"where": "id ="}}, r"is not a condition on the rows: \[PARSE"),
        ({"expect": {"not_null": "id"}, "quarantine": ""}, "quarantine is '', which is not a dir"),
        ({"expect": {"not_null": "id"}, "quarantine": 5}, "quarantine is 5"),
        ({"end_value": 5, "until": 4}, "a backfill has no until"),
        ({"end_value": 5, "max_rows": 4}, "a backfill has no max_rows"),
        ({"max_rows": 0}, "max_rows is 0"),
        ({"contract": "strict"}, "contract is 'strict'"),
        ({"materialize": "yes"}, "materialize is 'yes'"),
        ({"quarantine": "bad"}, "quarantine is given without a check"),
        ({"expect": ["id"]}, r"expect is \['id'\]"),
        ({"expect": {"nonnull": "id"}}, "expect has no rule 'nonnull'"),
        ({"expect": {"not_null": "nr"}}, "expect not_null is `nr`"),
        ({"expect": {"range": {"id": 5}}}, "expect range id is 5"),
        ({"expect": {"range": {"id": ("a", None)}}}, r"is \('a', None\), but the column has"),
        ({"expect": {"range": {"id": (None, date(2013, 1, 1))}}}, "the column has the type big"),
        ({"expect": {"range": {"id": (object(), None)}}}, "the column has the type bigint"),
        ({"expect": {"rows": 5}}, "expect rows is 5"),
        ({"expect": {"rows": ("1", None)}}, "expect rows is"),
        ({"expect": {"where": "nr > 1"}}, "is not a condition on the rows: .*UNRESOLVED_COLUMN"),
        ({"expect": {"where": "id + 1"}}, "has the type bigint"),
    ],
)
def test_an_invalid_load_is_refused(
    df: DataFrame, orders: AssetStore, rules: dict[str, Any], message: str
) -> None:
    with pytest.raises(HoldfastError, match=message):
        incremental(df, orders, **{"cursor": "at"} | rules)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (lambda new, path: new.save(None), "the path is None"),
        (lambda new, path: new.save(b"x"), "the path is b'x'"),
        (lambda new, path: new.save(" "), "is not a directory to write to"),
        (lambda new, path: new.save("/"), "the path is '/', which is not a directory"),
        (lambda new, path: new.save("file:///"), "which is not a directory"),
        (lambda new, path: new.save("/proc/holdfast"), "/proc/holdfast.* cannot be written"),
        (lambda new, path: new.save(path, format=None), "format is None"),
        (lambda new, path: new.save(path, partition_by="nope"), "partition_by is `nope`"),
        (lambda new, path: new.save(path, partition_by=5), "partition_by is 5"),
        (lambda new, path: new.save(path, options=5), "options is 5"),
        (lambda new, path: new.sql(None), "the statement is None"),
        (lambda new, path: new.view(None), "the view's name is None"),
        (lambda new, path: new.write(None), "write got None"),
        (
            lambda new, path: new.write(lambda rows: rows.write.mode("append")),
            "returned a DataFrameWriter, which by itself writes nothing",
        ),
        (
            lambda new, path: new.write(lambda rows: rows.writeTo("orders")),
            "returned a DataFrameWriterV2, which by itself writes nothing",
        ),
    ],
)
def test_an_invalid_write_is_refused(
    df: DataFrame, orders: AssetStore, tmp_path: Path, how: Any, message: str
) -> None:
    new = incremental(df, orders, cursor="at")

    with pytest.raises(HoldfastError, match=message):
        how(new, str(tmp_path / "out"))

    assert orders.entry("watermark") is None
    assert new.write(lambda rows: None).rows == 3


def test_a_source_that_is_not_a_dataframe_is_refused(orders: AssetStore) -> None:
    source: Any = [1, 2]

    with pytest.raises(InvalidType, match="the source is a list"):
        incremental(source, orders, cursor="at")


def test_portions_with_invalid_arguments_are_an_error(df: DataFrame, orders: AssetStore) -> None:
    size: Any = None
    with pytest.raises(InvalidInput, match="max_rows is None"):
        next(portions(df, orders, cursor="at", max_rows=size))
    with pytest.raises(TypeError, match=r"portions\(\) got an unexpected keyword argument 'nope'"):
        next(portions(df, orders, cursor="at", max_rows=1, nope=1))


def test_a_stream_is_refused(local_spark: SparkSession, orders: AssetStore) -> None:
    stream = local_spark.readStream.format("rate").load()

    with pytest.raises(InvalidInput, match="streaming") as raised:
        incremental(stream, orders, cursor="timestamp")

    assert "foreach_batch" in raised.value.hint


@pytest.mark.full
def test_the_stores_of_a_task_with_one_asset_are_accepted(
    df: DataFrame, orders: AssetStore
) -> None:
    def stores(*names: str) -> AssetStores:
        scopes = [AssetScope(name=name) for name in names]
        return AssetStores(orders.binding.store, "the task", scopes, ApiWriter("ann"), Rules())

    assert Table().load(incremental(df, stores("orders"), cursor="at")) == Loaded(3, None, 2)
    with pytest.raises(InvalidInput, match="declares several assets"):
        incremental(df, stores("orders", "customers"), cursor="at")
    with pytest.raises(InvalidType, match="the asset store is a dict"):
        incremental(df, {}, cursor="at")  # type: ignore[arg-type]


def test_a_watermark_of_another_type_is_an_error_and_can_be_deleted(
    local_spark: SparkSession, df: DataFrame, orders: AssetStore
) -> None:
    orders.set("watermark", {"cursor": "at", "type": "date", "value": "2013-12-31"})

    with pytest.raises(InvalidInput, match="`at` of the type date, but this load") as raised:
        incremental(df, orders, cursor="at")

    assert "rewind" in raised.value.hint
    orders.delete("watermark")
    assert Table().load(incremental(df, orders, cursor="at")).rows == 3


def test_a_cursor_that_is_all_null_is_an_error_or_nothing_new(
    local_spark: SparkSession, orders: AssetStore
) -> None:
    df = frame(local_spark, [(1, None), (2, None)])

    with pytest.raises(InvalidInput, match="cursor `at` is null in 2 rows"):
        incremental(df, orders, cursor="at")
    assert Table().load(incremental(df, orders, cursor="at", on_null="skip")).rows == 0
    assert orders.entry("watermark") is None


@pytest.mark.full
def test_too_many_rows_to_remember_are_an_error_that_moves_nothing(
    df: DataFrame, orders: AssetStore
) -> None:
    with pytest.raises(InvalidInput, match="more than remember=1 loaded rows would be read again"):
        incremental(df, orders, cursor="at", primary_key="id", remember=1)
    assert orders.entry("watermark") is None

    Table().load(incremental(df, orders, cursor="at", primary_key="id", remember=2))
    assert orders.get("watermark")["value"] == 2


@pytest.mark.full
def test_a_key_given_later_duplicates_nothing_and_warns(
    local_spark: SparkSession,
    df: DataFrame,
    orders: AssetStore,
    caplog: pytest.LogCaptureFixture,
) -> None:
    table, rules = Table(), {"cursor": "at", "lag": 2, "primary_key": "id"}
    table.load(incremental(df, orders, cursor="at"))

    nothing = table.load(incremental(df, orders, **rules))
    more = frame(local_spark, [(1, 1), (2, 2), (3, 2), (4, 3)])
    changed = table.load(incremental(more, orders, **rules))
    later = frame(local_spark, [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 2)])
    table.load(incremental(later, orders, **rules))

    assert "does not record which rows are loaded, by at, id" in caplog.text
    assert (nothing.rows, changed.rows) == (0, 1)
    assert table.rows() == [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)]


@pytest.mark.full
def test_a_key_of_another_kind_is_an_error_with_a_hint(
    local_spark: SparkSession, orders: AssetStore
) -> None:
    number = frame(local_spark, [(1, 5)])
    text = frame(local_spark, [("1", 5), ("2", 6)], "id string, at long")
    Table().load(incremental(number, orders, cursor="at", primary_key="id"))

    with pytest.raises(InvalidInput, match=r"by .*id \(integer\), but .* now .*id \(string\)"):
        incremental(text, orders, cursor="at", primary_key="id")

    mark = orders.get("watermark")
    del mark["seen"]
    orders.set("watermark", mark)
    assert Table().load(incremental(text, orders, cursor="at", primary_key="id")).rows == 1


@pytest.mark.full
def test_a_primary_key_is_the_same_in_any_order_of_its_columns(
    local_spark: SparkSession, orders: AssetStore
) -> None:
    rows = frame(local_spark, [(1, 2, 7), (2, 1, 7)], "a int, b int, at int")
    table = Table()
    table.load(incremental(rows, orders, cursor="at", primary_key=["a", "b"]))

    assert table.load(incremental(rows, orders, cursor="at", primary_key=["b", "a"])).rows == 0


def test_a_written_load_leaves_no_listener(
    local_spark: SparkSession, df: DataFrame, orders: AssetStore
) -> None:
    listeners = local_spark._jsparkSession.listenerManager()
    before = len(listeners.listListeners())

    Table().load(incremental(df, orders, cursor="at"))

    assert len(listeners.listListeners()) == before


@pytest.mark.full
def test_a_lag_does_not_reach_before_the_initial_value(
    local_spark: SparkSession, orders: AssetStore
) -> None:
    df = frame(local_spark, [(at, at) for at in range(10)])
    table = Table()

    for _ in range(2):
        table.load(incremental(df, orders, cursor="at", initial=8, lag=5, primary_key="id"))

    assert table.rows() == [(8, 8), (9, 9)]


@pytest.mark.full
def test_without_a_key_rows_within_the_lag_are_read_again_to_be_replaced(
    df: DataFrame, orders: AssetStore
) -> None:
    for _ in range(2):
        loaded = Table().load(incremental(df, orders, cursor="at", lag=1, primary_key=()))

    assert loaded == Loaded(3, 2, 2)
    assert len(orders.history("watermark")) == 2


@pytest.mark.full
def test_a_load_is_written_once(df: DataFrame, orders: AssetStore) -> None:
    load = incremental(df, orders, cursor="at")
    Table().load(load)

    with pytest.raises(InvalidInput, match="this load has already been written"):
        Table().load(load)


@pytest.mark.full
def test_a_superseded_load_is_not_written(df: DataFrame, orders: AssetStore) -> None:
    slow, fast = incremental(df, orders, cursor="at"), incremental(df, orders, cursor="at")
    table = Table()
    table.load(fast)

    with pytest.raises(VersionConflict, match="another load finished first"):
        slow.write(lambda new: pytest.fail("it must not be written"))
    assert len(orders.history("watermark")) == 1


def test_a_load_superseded_during_its_write_moves_nothing(
    df: DataFrame, orders: AssetStore
) -> None:
    slow = incremental(df, orders, cursor="at")

    def write_slowly(new: DataFrame) -> None:
        Table().load(incremental(df.where("id = 1"), orders, cursor="at"))
        new.collect()

    with pytest.raises(VersionConflict, match="another load finished first"):
        slow.write(write_slowly)
    assert orders.get("watermark")["value"] == 2


def test_an_error_of_the_function_is_raised_unchanged(df: DataFrame, orders: AssetStore) -> None:
    load = incremental(df, orders, cursor="at")

    with pytest.raises(ZeroDivisionError):
        load.write(lambda new: 1 / 0)

    assert Table().load(load).rows == 3


@pytest.mark.full
def test_the_condition_reaches_a_database_which_is_read_once(
    local_spark: SparkSession, orders: AssetStore, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"url": "jdbc:derby:memory:loads;create=true", "dbtable": "loads"}
    frame(local_spark, [(1, 1), (2, 2)]).write.format("jdbc").options(**options).save()
    table = local_spark.read.format("jdbc").options(**options).load()
    Table().load(incremental(table.where("id = 1"), orders, cursor="at"))

    incremental(table, orders, cursor="at", materialize=False, on_null="skip").df.explain()
    load = incremental(table, orders, cursor="at")
    frame(local_spark, [(3, 2)]).write.format("jdbc").options(**options).mode("append").save()

    pushed = "PushedFilters: [*IsNotNull(at), *GreaterThanOrEqual(at,1), *LessThanOrEqual(at,2)]"
    assert pushed in capsys.readouterr().out
    assert Table().load(load) == Loaded(1, 1, 2)
