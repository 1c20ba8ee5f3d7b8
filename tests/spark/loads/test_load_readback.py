"""Round trips of saved rows: any value with any options is read back unchanged, or refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loading import connection
from pyspark.sql import DataFrame, SparkSession

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import InvalidInput
from holdfast.spark.loads.directory_reader import read_loads
from holdfast.spark.loads.incremental import incremental

ALL = ("csv", "json", "text", "xml", "orc")


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[AssetStore]:
    with connection(tmp_path) as opened:
        yield opened.asset_store(name="orders", declare=True)


def texts(df: DataFrame) -> Counter[Any]:
    """Return all values as unambiguous text, times in UTC."""
    columns = [
        f"CAST({name} AS STRING)"
        if kind in ("date", "timestamp_ntz")
        else f"CAST(unix_micros({name}) AS STRING)"
        if kind == "timestamp"
        else f"to_json(named_struct('v', {name}), map('ignoreNullFields', 'false'))"
        for name, kind in ((f"`{name}`", kind) for name, kind in df.dtypes)
    ]
    return Counter(map(tuple, df.selectExpr(*columns).collect()))


def is_kept(df: DataFrame, orders: AssetStore, path: Path, **output: Any) -> bool:
    """Return whether the rows are saved; assert that they are read unchanged, or that none are."""
    spark = df.sparkSession
    try:
        incremental(df, orders, cursor="at").save(str(path), **output)
    except InvalidInput:
        assert not list(path.glob("*"))
        assert orders.get("watermark") is None
        return False
    found = read_loads(spark, orders, str(path)).drop("load")
    assert found.columns == df.columns
    assert texts(found) == texts(df)
    return True


ODD = [
    ("xml", "CAST(-9223372036854775807 - 1 AS LONG) v, 'z' w", {}),
    ("xml", "array(CAST(-2147483648 AS INT), 5) v, 'z' w", {}),
    ("xml", "CAST(map() AS MAP<STRING, INT>) v", {}),
    ("xml", "array(map('a', 1), CAST(map() AS MAP<STRING, INT>)) v", {}),
    ("xml", "map('_x', '1') v", {}),
    ("xml", "map('_VALUE', '1') v, 'z' w", {}),
    ("xml", "map('a', named_struct('x', CAST(NULL AS INT))) v", {}),
    ("xml", "map('k', array(1, 2)) v", {}),
    ("xml", "map('a b', '1') v", {}),
    ("xml", "'a' _VALUE, 'b' w", {}),
    ("xml", "named_struct('_VALUE', 'z', 'c', 'y') v", {}),
    ("xml", "'a' v, 'b' w", {"valueTag": "v"}),
    ("xml", "-1 v", {"nullValue": "-1"}),
    ("xml", "1.50BD v", {"locale": "de-DE"}),
    ("xml", "'a' _v", {"excludeAttribute": "true"}),
    ("xml", "'a' v", {"rootTag": "row"}),
    ("xml", "'a' `a b`", {"validateName": "false"}),
    ("xml", "' a ' v", {"ignoreSurroundingSpaces": "true"}),
    ("csv", "1.50BD v", {"locale": "de-DE"}),
    ("csv", "'a' v, 'b' w", {"columnNameOfCorruptRecord": "v"}),
    ("csv", "'\"' v, 'w' w", {"escape": ""}),
    ("csv", "'a\\\\\"b' v, 'w' w", {"charToEscapeQuoteEscaping": "\\"}),
    ("csv", "date'9999-12-31' v", {"dateFormat": "yyyyMMdd", "nullValue": "99991231"}),
    ("csv", "CAST(NULL AS INT) v", {"quoteAll": "true"}),
    ("csv", "CAST(NULL AS INT) v", {"quoteAll": "true", "mode": "DROPMALFORMED"}),
    ("csv", "10 v, 'b' w", {"sep": "00"}),
    ("csv", "'a\\nb' v", {"multiLine": "false"}),
    ("csv", "' a' v", {"ignoreLeadingWhiteSpace": True}),
    ("csv", "X'00ff' v", {}),
    ("json", "double('NaN') v", {"allowNonNumericNumbers": "false"}),
    ("json", "map(1, 'a') v", {}),
    ("json", "'a' v, 'b' w", {"columnNameOfCorruptRecord": "v"}),
    ("json", "'a,b' v", {"lineSep": ","}),
    ("json", "to_variant_object(named_struct('d', date'2026-01-01')) v", {}),
    ("json", "timestamp'2026-01-01 00:00:00.123456Z' v", {"timestampFormat": "yyyy-MM-dd"}),
    ("orc", "date'1582-10-10' v", {}),
    ("orc", "collate('A', 'UTF8_LCASE') v", {}),
]


@pytest.mark.full
@pytest.mark.parametrize(("format", "columns", "options"), ODD, ids=str)
def test_rows_that_would_not_be_read_back_unchanged_are_not_saved(
    classic_spark: SparkSession,
    orders: AssetStore,
    tmp_path: Path,
    format: str,
    columns: str,
    options: dict[str, str],
) -> None:
    given = {"rowTag": "row", **options} if format == "xml" else options
    source = classic_spark.sql(f"SELECT 1L AS at, {columns} FROM range(2)")

    assert not is_kept(source, orders, tmp_path / "out", format=format, options=given)


@pytest.mark.parametrize("format", ["csv", "json", "xml", "orc"])
@pytest.mark.parametrize(
    "columns",
    [
        "timestamp'2026-01-01 00:00:00.123456Z' t, timestamp_ntz'2026-01-01 00:00:00.000001' n",
        "timestamp'1500-02-28 12:00:00.000001Z' t, date'0001-01-01' d, date'2026-01-01' e",
        "double('NaN') a, float('-Infinity') b, 0.1F c, 1e300D d, -0.0D e, 1.50BD f",
        "CAST(NULL AS INT) a, CAST(NULL AS STRING) b, CAST(NULL AS TIMESTAMP) c, true d",
        "'a' _corrupt_record, ' a ' b, '' c, 'ä€' d",
    ],
)
def test_common_rows_are_kept_by_every_format(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path, format: str, columns: str
) -> None:
    source = classic_spark.sql(f"SELECT 1L AS at, {columns} FROM range(2)")

    options = {"rowTag": "row"}
    assert is_kept(source, orders, tmp_path / "out", format=format, options=options)


@pytest.mark.full
@pytest.mark.parametrize("format", ALL)
def test_files_are_read_whatever_the_options_that_would_hide_them(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path, format: str
) -> None:
    source = classic_spark.sql("SELECT 1L AS at, 'a' AS v")
    options = {"pathGlobFilter": "*.x", "recursiveFileLookup": "true", "rowTag": "row"}
    options["modifiedAfter"] = "2999-01-01T00:00:00"

    kept = {"format": format, "partition_by": "at", "options": options}
    assert is_kept(source, orders, tmp_path / "out", **kept)


@pytest.mark.full
@pytest.mark.parametrize("format", ["csv", "json", "xml"])
def test_the_session_of_a_reader_does_not_change_rows(
    classic_spark: SparkSession, orders: AssetStore, tmp_path: Path, format: str
) -> None:
    source = classic_spark.sql(
        "SELECT 1L AS at, 'a' AS v, 'b' AS w, timestamp'2026-01-01 00:00:00.123456Z' AS t"
    )
    out, options = str(tmp_path / "out"), {"rowTag": "row"}
    incremental(source, orders, cursor="at").save(out, format=format, options=options)
    expected = texts(source)
    settings = {
        "spark.sql.columnNameOfCorruptRecord": "w",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
    }
    before = {name: classic_spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        classic_spark.conf.set(name, value)
    try:
        found = texts(read_loads(classic_spark, orders, out).drop("load"))
    finally:
        for name, value in before.items():
            classic_spark.conf.set(name, value or "")

    assert found == expected


@pytest.mark.full
def test_rows_are_read_back_by_sparks_of_each_kind(
    spark: SparkSession, orders: AssetStore, tmp_path: Path
) -> None:
    source = spark.sql("SELECT id AS at, IF(id = 7, '#', 'a') AS v FROM range(1, 9)")
    load = incremental(source, orders, cursor="at")

    with pytest.raises(InvalidInput, match=r"`v` has a value that CSV cannot represent"):
        load.save(str(tmp_path / "out"), format="csv", options={"nullValue": "#"})
    with pytest.raises(InvalidInput, match="Spark reads back 2 of 1 rows from TEXT"):
        lines = spark.sql("SELECT 'a\\nb' AS at")
        incremental(lines, orders, cursor="at", key="lines").save(
            str(tmp_path / "lines"), format="text"
        )
    assert load.save(str(tmp_path / "out"), format="csv").rows == 8
    assert read_loads(spark, orders, str(tmp_path / "out")).count() == 8
    # Of the latter, Spark shows nothing in its plan.
    for number, condition in enumerate(("rand() > 2", "false")):
        empty = spark.sql(f"SELECT 'a' AS at WHERE {condition}")
        bounds = {"key": f"b{number}", "initial": "a", "end_value": "b"}
        backfill = incremental(empty, orders, cursor="at", **bounds)
        assert backfill.save(str(tmp_path / f"empty{number}"), format="csv").rows == 0
