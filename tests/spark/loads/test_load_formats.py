"""Formats of loads: read with the format, options and columns with which they were saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from loading import connection, frame, save_without_renames
from pyspark.sql import SparkSession

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput
from holdfast.spark.loads.directory_reader import read_loads
from holdfast.spark.loads.incremental import incremental
from holdfast.spark.loads.load import Load


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[AssetStore]:
    with connection(tmp_path) as opened:
        yield opened.asset_store(name="orders", declare=True)


def save(spark: SparkSession, orders: AssetStore, sql: str, path: Path, **output: Any) -> None:
    incremental(spark.sql(sql), orders, cursor="at").save(str(path), **output)


def test_options_of_a_text_format_need_not_be_repeated(
    spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    options = {"timestampFormat": "dd/MM/yyyy HH:mm:ss", "compression": "gzip"}
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    source = frame(spark, [(noon, "a,b")], "at timestamp, text string")

    incremental(source, orders, cursor="at").save(str(tmp_path), format="json", options=options)

    found = read_loads(spark, orders, str(tmp_path))
    [row] = found.selectExpr("unix_seconds(at) AS at", "text").collect()
    assert (row.at, row.text) == (int(noon.timestamp()), "a,b")


@pytest.mark.full
def test_another_format_than_that_of_the_loads_is_refused(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    save(classic_spark, orders, "SELECT 1 AS at", tmp_path / "out")

    with pytest.raises(InvalidInput, match="were saved as parquet, not as json"):
        read_loads(classic_spark, orders, str(tmp_path / "out"), format="json")


@pytest.mark.full
def test_loads_of_two_formats_are_read_from_a_path_each(
    spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    save(spark, orders, "SELECT 1 AS at", tmp_path / "out")
    save(spark, orders, "SELECT 2 AS at", tmp_path / "json", format="json")

    with pytest.raises(InvalidInput, match="were saved as parquet and as json"):
        read_loads(spark, orders, str(tmp_path / "out"))
    rows = read_loads(spark, orders, str(tmp_path / "json"), format="json").collect()
    assert [row.at for row in rows] == [2]
    save(spark, orders, "SELECT 3 AS at", tmp_path / "out", format="json")
    with pytest.raises(InvalidInput, match="has loads of several formats"):
        read_loads(spark, orders, str(tmp_path / "out"), format="json")


@pytest.mark.full
def test_columns_of_json_whose_spelling_changes_are_refused(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    for sql in ("SELECT 1 AS at, 'a' AS Name", "SELECT 2 AS at, 'b' AS name"):
        save(classic_spark, orders, sql, tmp_path / "out", format="json")

    with pytest.raises(InvalidInput, match="saved the column `name` also as `Name`"):
        read_loads(classic_spark, orders, str(tmp_path / "out"))


@pytest.mark.full
def test_columns_of_csv_in_another_order_are_refused(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    for sql in ("SELECT 1 AS at, 'a' AS a, 'b' AS b", "SELECT 2 AS at, 'b' AS b, 'a' AS a"):
        save(classic_spark, orders, sql, tmp_path / "out", format="csv")

    with pytest.raises(InvalidInput, match="at, a, b, and with at, b, a: such files are read by"):
        read_loads(classic_spark, orders, str(tmp_path / "out"))


@pytest.mark.full
def test_options_of_csv_that_change_are_refused_unless_they_are_given(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    for number, header in ((1, "true"), (2, "false")):
        sql, options = f"SELECT {number} AS at, 'a' AS a", {"header": header}
        save(classic_spark, orders, sql, tmp_path / "out", format="csv", options=options)

    with pytest.raises(InvalidInput, match="were saved with header=true and false"):
        read_loads(classic_spark, orders, str(tmp_path / "out"))
    rows = read_loads(classic_spark, orders, str(tmp_path / "out"), options={"Header": "false"})
    assert rows.count() == 3


@pytest.mark.full
@pytest.mark.parametrize("output", [{"format": "json"}, {"partition_by": "x"}])
def test_a_float_that_was_written_as_text_is_not_read_as_a_double(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path, output: dict[str, Any]
) -> None:
    for number, kind in ((1, "float"), (2, "double")):
        sql = f"SELECT {number} AS at, CAST(0.1 AS {kind}) AS x"
        save(classic_spark, orders, sql, tmp_path / "out", **output)

    with pytest.raises(InvalidInput, match="saved the column `x` as float and as double"):
        read_loads(classic_spark, orders, str(tmp_path / "out"))


def test_a_float_in_parquet_is_read_as_a_double(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    for number, kind in ((1, "float"), (2, "double")):
        sql = f"SELECT {number} AS at, CAST(0.1 AS {kind}) AS x"
        save(classic_spark, orders, sql, tmp_path / "out")

    rows = read_loads(classic_spark, orders, str(tmp_path / "out")).collect()
    assert sorted(row.x for row in rows) == [0.1, 0.10000000149011612]


@pytest.mark.full
def test_two_ways_of_saving_below_one_path_are_named(
    classic_spark: SparkSession,
    orders: AssetStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save(classic_spark, orders, "SELECT 1 AS at, 'a' AS p", tmp_path / "out")
    with monkeypatch.context() as patch:
        save_without_renames(patch)
        save(classic_spark, orders, "SELECT 2 AS at, 'a' AS p", tmp_path / "out")

    with pytest.raises(InvalidInput, match="has loads of two kinds: some were saved by"):
        read_loads(classic_spark, orders, str(tmp_path / "out"))
    save(classic_spark, orders, "SELECT 3 AS at, 'a' AS p", tmp_path / "other")
    save(classic_spark, orders, "SELECT 4 AS at, 'a' AS p", tmp_path / "other", partition_by="p")
    with pytest.raises(InvalidInput, match="different partition_by: by (p and by nothing|nothing)"):
        read_loads(classic_spark, orders, str(tmp_path / "other"))


@pytest.fixture(params=["renamed", "not renamed"])
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a file system with renames, and one without, as object stores are."""
    if request.param == "not renamed":
        save_without_renames(monkeypatch)
    return str(request.param)


@pytest.mark.full
@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("other", ["failed", "undone", "of another asset"])
@pytest.mark.parametrize("header", ["true", "false"])
def test_csv_of_other_or_undone_loads_determines_no_columns(
    classic_spark: SparkSession, tmp_path: Path, other: str, header: str
) -> None:
    spark, out = classic_spark, tmp_path / "out"
    way: dict[str, Any] = {"format": "csv", "options": {"header": header}}
    rows = "SELECT id AS at, 'B' AS city, 'A' AS name, 'x' AS more FROM range(2, 90)"
    with connection(tmp_path) as store:
        orders = store.asset_store(name="orders", declare=True)
        save(spark, orders, "SELECT 1L AS at, 'a' AS name, 'b' AS city", out, **way)
        version = orders.history("watermark")[0].version
        if other == "of another asset":
            save(spark, store.asset_store(name="a", declare=True), rows, out, **way)
        elif other == "undone":
            save(spark, orders, rows, out, **way)
            orders.rewind("watermark", version=version)
        else:
            with suppress(KeyError), store.task_store("dag", "run", "load").attempt() as attempt:
                save(spark, attempt.asset_store(name="orders"), rows, out, **way)
                raise KeyError

        found = read_loads(spark, orders, str(out)).drop("load")

        assert found.columns == ["at", "name", "city"]
        assert [tuple(row) for row in found.collect()] == [(1, "a", "b")]


@pytest.mark.full
@pytest.mark.usefixtures("storage")
def test_unrecorded_columns_are_those_of_the_current_files(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    spark, out = classic_spark, str(tmp_path / "out")
    save(spark, orders, "SELECT 2L AS at, 'a' AS name", tmp_path / "out")
    for key in [key for key in list(orders.keys()) if "/saved/" in key]:
        orders.delete(key)
    with connection(tmp_path) as store:
        first = store.asset_store(name="a", declare=True)
        save(spark, first, "SELECT 1L AS at, 1 AS x FROM range(9)", tmp_path / "out")

    assert read_loads(spark, orders, out).columns == ["at", "name", "load"]


def write_by_hand(new: Load, path: Path, format: str = "parquet") -> None:
    new.write(lambda df: df.write.format(format).save(f"{path}/{new.name}"))


@pytest.mark.full
@pytest.mark.parametrize("format", ["parquet", "orc", "json"])
@pytest.mark.parametrize("rules", [{}, {"initial": 0, "end_value": 9}], ids=["load", "backfill"])
def test_columns_of_directories_that_the_author_wrote_are_read_beside_those_that_were_saved(
    classic_spark: SparkSession,
    orders: AssetStore,
    tmp_path: Path,
    format: str,
    rules: dict[str, Any],
) -> None:
    spark, out = classic_spark, tmp_path / "out"
    save(spark, orders, "SELECT 1L AS at, date'2026-01-31' AS day, 'a' AS x", out, format=format)
    for sql in ("SELECT 2L AS at, 'b' AS more", "SELECT 3L AS at, date'2026-02-01' AS day, 5L n"):
        ends = {name: value + spark.sql(sql).first().at for name, value in rules.items()}
        write_by_hand(incremental(spark.sql(sql), orders, cursor="at", **ends), out, format)

    found = read_loads(spark, orders, str(out))

    assert dict(found.dtypes) == {
        "at": "bigint",
        "day": "date",
        "x": "string",
        "more": "string",
        "n": "bigint",
        "load": "string",
    }
    assert {(row.at, str(row.day), row.x, row.more, row.n) for row in found.collect()} == {
        (1, "2026-01-31", "a", None, None),
        (2, "None", None, "b", None),
        (3, "2026-02-01", None, None, 5),
    }


@pytest.mark.full
def test_csv_that_the_author_wrote_with_other_columns_is_refused(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    spark, out = classic_spark, tmp_path / "out"
    save(spark, orders, "SELECT 1L AS at, '007' AS code", out, format="csv")
    source = spark.sql("SELECT 2L AS at, '008' AS code")
    write_by_hand(incremental(source, orders, cursor="at"), out, "csv")
    rows = read_loads(spark, orders, str(out)).collect()
    assert {(row.at, row.code) for row in rows} == {(1, "007"), (2, "008")}

    source = spark.sql("SELECT 3L AS at, '009' AS code, 'x' AS more")
    write_by_hand(incremental(source, orders, cursor="at"), out, "csv")

    with pytest.raises(InvalidInput, match="such files are read by column position"):
        read_loads(spark, orders, str(out))


@pytest.mark.full
@pytest.mark.parametrize("format", ["csv", "json", "xml"])
@pytest.mark.parametrize("value", ["5000000000L", "1.5D", "'abc'"])
def test_files_of_the_author_of_another_type_than_the_saved_ones_are_an_error(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path, format: str, value: str
) -> None:
    spark, out = classic_spark, tmp_path / "out"
    options = {"rowTag": "row"}
    save(spark, orders, "SELECT 1L AS at, 10 AS id", out, format=format, options=options)
    new = incremental(spark.sql(f"SELECT 2L AS at, {value} AS id"), orders, cursor="at")
    new.write(lambda df: df.write.format(format).options(**options).save(f"{out}/{new.name}"))

    with pytest.raises(Exception, match="MALFORMED_RECORD_IN_PARSING|FAILED_READ_FILE"):
        read_loads(spark, orders, str(out)).collect()


@pytest.mark.full
@pytest.mark.parametrize("columns", ["20L AS id, 2L AS at", "2L AS at, 20L AS id"])
def test_names_in_the_header_of_csv_that_the_author_wrote_are_compared(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path, columns: str
) -> None:
    spark, out = classic_spark, tmp_path / "out"
    save(spark, orders, "SELECT 1L AS at, 10L AS id", out, format="csv", options={"header": "true"})
    new = incremental(spark.sql(f"SELECT {columns}"), orders, cursor="at")
    new.write(lambda df: df.write.option("header", "true").csv(f"{out}/{new.name}"))

    if columns.startswith("20L"):
        with pytest.raises(InvalidInput, match="at, id, and with id, at: such files are read by"):
            read_loads(spark, orders, str(out))
    else:
        rows = read_loads(spark, orders, str(out)).collect()
        assert {(row.at, row.id) for row in rows} == {(1, 10), (2, 20)}


@pytest.mark.full
def test_an_option_is_recognised_by_each_of_its_names(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    sql = "SELECT 1L AS at, 'a' AS v"
    save(classic_spark, orders, sql, tmp_path / "out", format="csv", options={"sep": ";"})

    out = str(tmp_path / "out")
    given = {"Delimiter": ",", "mode": "PERMISSIVE"}
    rows = read_loads(classic_spark, orders, out, options=given).collect()

    assert [(row.at, row.v) for row in rows] == [(None, None)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("format", "options"), [("csv", {}), ("xml", {"rowTag": "r"}), ("json", {})]
)
def test_text_is_read_with_the_types_that_were_saved(
    classic_spark: SparkSession,
    orders: AssetStore,
    tmp_path: Path,
    format: str,
    options: dict[str, str],
) -> None:
    values = "1L AS at, '007' AS code, 0.1F AS f, 1.50BD AS d, date'2026-01-31' AS day, true AS t"

    save(classic_spark, orders, f"SELECT {values}", tmp_path, format=format, options=options)

    found = read_loads(classic_spark, orders, str(tmp_path)).drop("load")
    expected = classic_spark.sql(f"SELECT {values}")
    assert found.dtypes == expected.dtypes
    assert found.collect() == expected.collect()


@pytest.mark.full
def test_lines_of_text_have_the_name_that_was_saved(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    sql = "SELECT '1' AS at"

    save(classic_spark, orders, sql, tmp_path, format="text")

    assert [row.at for row in read_loads(classic_spark, orders, str(tmp_path)).collect()] == ["1"]


@pytest.mark.full
@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("rules", [{}, {"initial": 0, "end_value": 10}], ids=["load", "backfill"])
@pytest.mark.parametrize("format", ["parquet", "json", "csv", None])
def test_quarantined_rows_are_read_whatever_the_format_of_the_load(
    classic_spark: SparkSession,
    orders: AssetStore,
    tmp_path: Path,
    format: str | None,
    rules: dict[str, Any],
) -> None:
    spark, out, bad = classic_spark, str(tmp_path / "out"), str(tmp_path / "bad")
    source = spark.sql("SELECT id AS at, '007' AS code, current_timestamp() AS t FROM range(1, 4)")
    checks: dict[str, Any] = {"expect": {"where": "at < 2"}, "quarantine": bad}
    load = incremental(source, orders, cursor="at", **checks, **rules)

    if format is None:
        load.write(lambda new: None)
    else:
        load.save(out, format=format, partition_by="code", options={"header": "true"})
        assert [row.at for row in read_loads(spark, orders, out).collect()] == [1]

    for given in (None, "parquet"):
        found = read_loads(spark, orders, f"file:{bad}/", format=given).drop("load")
        assert found.dtypes == source.dtypes
        assert sorted((row.at, row.code) for row in found.collect()) == [(2, "007"), (3, "007")]


@pytest.mark.full
def test_files_of_another_format_than_the_loads_are_named(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    checks: dict[str, Any] = {"expect": {"where": "at < 2"}, "quarantine": tmp_path / "bad"}
    load = incremental(classic_spark.range(4).toDF("at"), orders, cursor="at", **checks)
    load.save(str(tmp_path / "out"), format="csv", options={"extension": "tsv"})
    (tmp_path / "bad").rename(tmp_path / "elsewhere")

    assert read_loads(classic_spark, orders, str(tmp_path / "out")).count() == 2
    with pytest.raises(InvalidInput, match=r"\.parquet is not csv"):
        read_loads(classic_spark, orders, str(tmp_path / "elsewhere"))
