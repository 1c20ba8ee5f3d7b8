# ruff: noqa: DTZ001
"""Rows of Parquet files in the schema of a table that has changed since."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.errors import BackendFailed, ObjectMissing, SourceChanged
from holdfast.portable.lake.reading import Piece, Reading, pack_pieces, read


def with_id(field: pa.Field, id: int) -> pa.Field:
    return field.with_metadata({"PARQUET:field_id": str(id)})


def rows_of(
    directory: Path, schema: pa.Schema, *pieces: Piece, options: dict[str, str] | None = None
) -> pa.Table:
    reading = Reading(str(directory), options or {}, (pack_pieces(pieces),), schema)
    tasks = pa.RecordBatch.from_pydict({"id": [0]})
    return pa.Table.from_batches(read(reading, [tasks]))


def written(directory: Path, table: pa.Table, **options: Any) -> Piece:
    pq.write_table(table, directory / "file.parquet", **options)
    return Piece("file.parquet", (directory / "file.parquet").stat().st_size)


WIDENED = [
    (pa.array([1, None, -3], pa.int8()), pa.int64(), [1, None, -3]),
    (pa.array([1, -3], pa.int32()), pa.decimal128(12, 2), [Decimal("1.00"), Decimal("-3.00")]),
    (pa.array([1.5], pa.float32()), pa.float64(), [1.5]),
    (pa.array([Decimal("1.5")]), pa.decimal128(20, 4), [Decimal("1.5000")]),
    (pa.array([date(1900, 1, 2)]), pa.timestamp("us"), [datetime(1900, 1, 2)]),
    (
        pa.array([datetime(1969, 12, 31, 23)], pa.timestamp("ns")),
        pa.timestamp("us"),
        [datetime(1969, 12, 31, 23)],
    ),
    (pa.array(["ü"], pa.large_string()), pa.string(), ["ü"]),
    (pa.array([[1], None, []], pa.list_(pa.int32())), pa.list_(pa.int64()), [[1], None, []]),
    (
        pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())),
        pa.map_(pa.string(), pa.int64()),
        [[("a", 1)], None],
    ),
]


@pytest.mark.parametrize(("stored", "kind", "values"), WIDENED, ids=lambda one: str(one)[:20])
def test_values_are_widened(stored: pa.Array, kind: Any, values: list[Any], tmp_path: Path) -> None:
    piece = written(tmp_path, pa.table({"a": stored}))

    assert rows_of(tmp_path, pa.schema({"a": kind}), piece)["a"].to_pylist() == values


def test_a_value_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    piece = written(tmp_path, pa.table({"a": [2**40]}))

    with pytest.raises(SourceChanged, match=r"the column `a` of the file file\.parquet does not"):
        rows_of(tmp_path, pa.schema({"a": pa.int32()}), piece)


def test_missing_fields_are_null_at_every_depth(tmp_path: Path) -> None:
    inner = pa.struct({"x": pa.int32()})
    table = pa.table(
        {
            "s": pa.array([{"x": 1}, None], inner),
            "l": pa.array([[{"x": 2}, None], None], pa.list_(inner)),
            "m": pa.array([[("k", {"x": 3})], []], pa.map_(pa.string(), inner)),
        }
    )
    wider = pa.struct({"y": pa.string(), "x": pa.int64()})
    schema = pa.schema(
        {"new": pa.date32(), "s": wider, "l": pa.list_(wider), "m": pa.map_(pa.string(), wider)}
    )

    assert rows_of(tmp_path, schema, written(tmp_path, table)).to_pylist() == [
        {
            "new": None,
            "s": {"y": None, "x": 1},
            "l": [{"y": None, "x": 2}, None],
            "m": [("k", {"y": None, "x": 3})],
        },
        {"new": None, "s": None, "l": None, "m": []},
    ]


def test_fields_with_ids_are_found_under_their_old_names(tmp_path: Path) -> None:
    stored = pa.schema(
        [
            with_id(pa.field("old", pa.int32()), 1),
            with_id(pa.field("taken", pa.int32()), 2),
            with_id(pa.field("s", pa.struct([with_id(pa.field("before", pa.int32()), 4)])), 3),
        ]
    )
    table = pa.table([[1], [2], [{"before": 5}]], stored)
    wanted = pa.schema(
        [
            with_id(pa.field("taken", pa.int64()), 1),
            with_id(pa.field("added", pa.int32()), 7),
            with_id(pa.field("s", pa.struct([with_id(pa.field("after", pa.int32()), 4)])), 3),
        ]
    )

    found = rows_of(tmp_path, wanted, written(tmp_path, table))

    assert found.to_pylist() == [{"taken": 1, "added": None, "s": {"after": 5}}]


def test_names_are_found_without_regard_to_case(tmp_path: Path) -> None:
    piece = written(tmp_path, pa.table({"Name": ["x"], "a.b": [1]}))

    found = rows_of(tmp_path, pa.schema({"name": pa.string(), "a.b": pa.int64()}), piece)

    assert found.to_pylist() == [{"name": "x", "a.b": 1}]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1969-12-31 23:00:00", pa.timestamp("us"), datetime(1969, 12, 31, 23)),
        ("1969-12-31T23:00:00.5Z", pa.timestamp("us", "UTC"), "1969-12-31 23:00:00.500000Z"),
        ("1969-12-31 23:00:00", pa.timestamp("us", "UTC"), "1969-12-31 23:00:00Z"),
        ("1970-01-01T01:00:00+02:00", pa.timestamp("us", "UTC"), "1969-12-31 23:00:00Z"),
        ("0001-01-01", pa.date32(), date(1, 1, 1)),
        ("-1.50", pa.decimal128(10, 2), Decimal("-1.50")),
        ("true", pa.bool_(), True),
        ("Infinity", pa.float64(), float("inf")),
        ("", pa.string(), ""),
        ("", pa.int32(), None),
        (None, pa.string(), None),
    ],
)
def test_partition_values_replace_those_in_the_file(
    text: str | None, kind: Any, value: Any, tmp_path: Path
) -> None:
    piece = written(tmp_path, pa.table({"p": [1, 2], "a": [3, 4]}))._replace(values={"p": text})

    found = rows_of(tmp_path, pa.schema({"a": pa.int64(), "p": kind}), piece)

    wanted = pa.scalar(value).cast(kind) if value is not None else pa.scalar(None, kind)
    assert found["p"].combine_chunks() == pa.array([wanted.as_py()] * 2, kind)
    assert found["a"].to_pylist() == [3, 4]


def test_the_parts_of_a_file_have_each_row_once(tmp_path: Path) -> None:
    piece = written(tmp_path, pa.table({"a": range(1000)}), row_group_size=90)
    parts = [piece._replace(first=first, of=5) for first in range(5)]

    found = rows_of(tmp_path, pa.schema({"a": pa.int64()}), *parts)

    assert sorted(found["a"].to_pylist()) == list(range(1000))


def test_times_of_old_writers_are_read(tmp_path: Path) -> None:
    time = datetime(1850, 5, 5, 1, 2, 3, 456789)
    piece = written(tmp_path, pa.table({"a": [time]}), use_deprecated_int96_timestamps=True)

    found = rows_of(tmp_path, pa.schema({"a": pa.timestamp("us")}), piece)

    assert found["a"].to_pylist() == [time]


def test_columns_that_no_file_has_keep_their_number_of_rows(tmp_path: Path) -> None:
    piece = written(tmp_path, pa.table({"a": range(70_000)}))

    found = rows_of(tmp_path, pa.schema({"b": pa.string()}), piece)

    assert (found.num_rows, found["b"].null_count) == (70_000, 70_000)


def test_nulls_in_a_required_column_are_an_error(tmp_path: Path) -> None:
    piece = written(tmp_path, pa.table({"a": [1, None]}))

    with pytest.raises(SourceChanged, match="the column `a` of the file file.parquet has nulls"):
        rows_of(tmp_path, pa.schema([pa.field("a", pa.int64(), nullable=False)]), piece)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ObjectMissing, match=r"gone\.parquet does not exist"):
        rows_of(tmp_path, pa.schema({"a": pa.int64()}), Piece("gone.parquet", 1))


def test_a_path_never_leads_out_of_the_table(tmp_path: Path) -> None:
    with pytest.raises(BackendFailed, match="is outside of the table"):
        rows_of(tmp_path, pa.schema({"a": pa.int64()}), Piece("../other.parquet", 1))


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}"])
def test_an_absolute_path_is_read(form: str, tmp_path: Path) -> None:
    below = tmp_path / "p=a%2Fb c"
    below.mkdir()
    written(below, pa.table({"a": [1]}))
    path = form.format(below / "file.parquet")

    found = rows_of(tmp_path / "else", pa.schema({"a": pa.int64()}), Piece(path, 1))

    assert found["a"].to_pylist() == [1]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file.parquet").write_bytes(b"PAR1 and not much more")

    with pytest.raises(SourceChanged, match=r"file\.parquet is not a Parquet file"):
        rows_of(tmp_path, pa.schema({"a": pa.int64()}), Piece("file.parquet", 22))
