"""Columns of a DataFrame for bulk writes, and errors for bad rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from holdfast.errors import HoldfastError, InvalidInput, InvalidType
from holdfast.portable.source.columns import Columns, columns_of
from holdfast.portable.source.location import Location
from holdfast.portable.source.writing import make_writer

TASKS = "dag_id string, run_id string, task_id string, key string, value string"
NOW = datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)


def schema(text: str) -> StructType:
    """Return the schema as Spark would parse it, without a session."""
    found = StructType()
    for field in text.split(", "):
        found.add(*field.split(" "))
    return found


def columns(table: str, text: str) -> Columns:
    return columns_of(table, schema(text))


def batch(**values: Any) -> pa.RecordBatch:
    row = {"dag_id": "d", "run_id": "r", "task_id": "t", "key": "k", "value": "1", **values}
    return pa.RecordBatch.from_pylist([row])


def entries(found: Columns, rows: pa.RecordBatch) -> list[Any]:
    return [
        (found.scope_of(owner, entry[0]), entry) for owner, entry in found.rows(rows, "default")
    ]


@pytest.mark.parametrize(
    ("table", "text", "said"),
    [
        ("task_store", "dag_id string, key string, value string", "no column `run_id`"),
        ("task_store", f"{TASKS}, expire_at timestamp", "does not take a column `expire_at`"),
        ("task_store", f"{TASKS}, version long", "the store sets `version` itself"),
        ("asset_store", "asset string, uri string, key string, value string", "keep one of them"),
        ("asset_store", "key string, value string", "no column `asset`"),
        ("asset_store", "asset string, key string, value string, expires_at timestamp", "take a"),
        ("runs", TASKS, "`runs` can be read only"),
    ],
)
def test_unknown_or_missing_columns_are_refused(table: str, text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        columns(table, text)


@pytest.mark.parametrize(
    ("column", "kind", "said"),
    [
        ("value", "binary", r"is binary, but must be string\n.*to_json\(value\)"),
        ("map_index", "string", "`map_index` is string, but must be an integer"),
        ("expires_at", "timestamp_ntz", "`expires_at` is timestamp_ntz, but must be timestamp"),
    ],
)
def test_columns_of_another_type_are_refused(column: str, kind: str, said: str) -> None:
    others = ", ".join(part for part in TASKS.split(", ") if not part.startswith(column))

    with pytest.raises(InvalidType, match=said):
        columns("task_store", f"{others}, {column} {kind}")


def test_overwriting_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"would empty the store.*\n.*mode\(\"append\"\)"):
        make_writer(Location("http://here"), "task_store", schema(TASKS), True)


def test_a_row_of_a_task_is_its_scope_and_its_entry() -> None:
    found = columns("task_store", TASKS)

    assert entries(found, batch()) == [
        (
            {"type": "task", "dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1},
            ("k", "1", "default"),
        )
    ]


def test_a_row_has_its_own_map_index_and_expiry() -> None:
    found = columns("task_store", f"{TASKS}, map_index long, expires_at timestamp")

    [(first, own)] = entries(found, batch(map_index=3, expires_at=NOW))
    [(second, never)] = entries(found, batch(map_index=None, expires_at=None))

    assert (first["map_index"], own[2]) == (3, "2026-01-31T12:00:00.000005+00:00")
    assert (second["map_index"], never[2]) == (-1, None)


@pytest.mark.parametrize(("column", "by"), [("asset", "name"), ("uri", "uri")])
def test_a_row_of_an_asset_is_found_by_name_or_uri(column: str, by: str) -> None:
    found = columns("asset_store", f"{column} string, key string, value string")
    rows = pa.RecordBatch.from_pylist([{column: "orders", "key": "k", "value": "1"}])

    [(scope, _)] = entries(found, rows)

    assert scope == {"type": "asset", by: "orders"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"run_id": None}, "run_id is null, in the row dag_id='d', run_id=None, task_id='t'"),
        ({"key": None}, "key is null, in the row .*map_index=0, key=None"),
        ({"value": None}, "value is null, in the row .*key='k'"),
        ({"dag_id": ""}, "dag_id is empty, in the row dag_id=''"),
        ({"task_id": "x" * 251}, "task_id has 251 characters; the limit is 250, in the row"),
        ({"map_index": -2}, "map_index is -2, in the row"),
        ({"expires_at": 2**62}, "expires_at is out of range, in the row .*key='k'"),
    ],
)
def test_a_bad_row_is_named(values: dict[str, Any], said: str) -> None:
    found = columns("task_store", f"{TASKS}, map_index long, expires_at timestamp")
    rows = batch(**{"map_index": 0, "expires_at": None, **values})

    with pytest.raises(HoldfastError, match=said):
        entries(found, rows)
