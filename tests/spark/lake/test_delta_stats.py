"""Statistics of Delta tables' files: filters of other readers find every row."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, QueryBuilder
from loading import connection
from pyspark.sql import SparkSession

from holdfast.accessor.task_store import TaskStore
from holdfast.spark import append, delta
from holdfast.spark.lake import files

HIGHEST = "\U0010ffff"
COLUMNS = pa.table(
    {
        "id": [1, 2],
        "ratio": [float("nan"), 3.5],
        "share": pa.array([0.5, -1.5], pa.float32()),
        "flag": [True, False],
        "price": [Decimal("1.25"), None],
        "amount": pa.array([Decimal("1234567890123456.25"), Decimal(2)], pa.decimal128(38, 18)),
        "short": ["a", "b"],
        "long": ["Z" * 5000, "x"],
        "top": ["a" * 32 + HIGHEST * 2 + "x", "b"],
        "absent": pa.array([None, None], pa.int64()),
        "inner": [{"at": datetime(1969, 12, 31, tzinfo=UTC), "bytes": b"x"}, None],
        "a.b": [1, 2],
    }
)


@pytest.fixture
def task(tmp_path: Path) -> Iterator[TaskStore]:
    with connection(tmp_path) as opened:
        yield opened.task_store("dag", "run", "task")


@pytest.mark.parametrize("by_spark", [True, False], ids=["Spark", "Arrow"])
@pytest.mark.parametrize("more", [(), *((name,) for name in COLUMNS.column_names)], ids=str)
def test_filters_find_every_row(
    classic_spark: SparkSession,
    task: TaskStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, ...],
    by_spark: bool,
) -> None:
    if not by_spark:
        monkeypatch.setattr(files, "renames", lambda *_: False)
    names = list(dict.fromkeys(["id", "short", *more]))
    table = delta(tmp_path / "table", create=True)
    rows = classic_spark.createDataFrame(COLUMNS.select(names)).coalesce(1)
    append(rows, table, task)

    found = DeltaTable(table.location).to_pyarrow_dataset()

    for name in names:
        for value in COLUMNS[name].to_pylist():
            if isinstance(value, dict) or value != value:
                continue
            is_value = ds.field(name).is_null() if value is None else ds.field(name) == value
            assert found.to_table(filter=is_value).num_rows == COLUMNS[name].to_pylist().count(
                value
            ), (name, value)


def test_the_highest_text_is_found_by_sql(
    classic_spark: SparkSession, task: TaskStore, tmp_path: Path
) -> None:
    table = delta(tmp_path / "table", create=True)
    text = "a" * 32 + HIGHEST * 2 + "x"
    append(classic_spark.createDataFrame([(text,)], "top string"), table, task)

    query = QueryBuilder().register("t", DeltaTable(table.location))
    found: Any = query.execute(f"SELECT count(*) AS n FROM t WHERE top = '{text}'").read_all()

    assert pa.table(found).to_pylist() == [{"n": 1}]


def test_old_dates_and_times_are_those_that_were_appended(
    classic_spark: SparkSession, task: TaskStore, tmp_path: Path
) -> None:
    name = "spark.sql.parquet.datetimeRebaseModeInWrite"
    table = delta(tmp_path / "table", create=True)
    classic_spark.conf.set(name, "LEGACY")
    try:
        old = "SELECT date'1500-01-01' AS d, timestamp'1850-01-01 00:00:00Z' AS t"
        append(classic_spark.sql(old), table, task)
        assert classic_spark.conf.get(name) == "LEGACY"
    finally:
        classic_spark.conf.unset(name)

    [row] = DeltaTable(table.location).to_pyarrow_table().to_pylist()

    assert (row["d"].isoformat(), row["t"]) == ("1500-01-01", datetime(1850, 1, 1, tzinfo=UTC))
