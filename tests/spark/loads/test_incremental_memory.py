"""Remembered rows of incremental loads."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import LongType

from holdfast.errors import HoldfastError
from holdfast.model.value import encode, fits
from holdfast.spark.loads.column_lookup import SourceColumn
from holdfast.spark.loads.cursor import cursor_of
from holdfast.spark.loads.watermark import (
    GROUPS,
    Bound,
    Memory,
    Watermark,
    as_json,
    from_json,
    latest,
)

CURSOR = cursor_of(SourceColumn(("at",), LongType()))
COLUMNS = {"at": "integer", "id": "integer"}


def remembered(rows: list[tuple[int, int]], since: int) -> Memory:
    return Memory(COLUMNS, None, ()).with_load(Bound(since, closed=True), list(rows))


def test_a_watermark_is_read_as_it_was_stored() -> None:
    keys = [(at, 2**63 - 1 - at) for at in range(100)]
    mark = Watermark(99, remembered(keys, since=0))

    stored = as_json(mark, CURSOR)

    assert {"cursor": "at", "type": "integer", "value": 99}.items() <= stored.items()
    assert from_json(stored, CURSOR, "it") == mark


def test_five_thousand_remembered_rows_fit_into_an_entry() -> None:
    mark = Watermark(5000, remembered([(at, -at) for at in range(5000)], since=0))

    assert fits(encode(as_json(mark, CURSOR)), 65535)


def test_rows_outside_the_lag_are_forgotten() -> None:
    memory = remembered([(1, 10), (2, 20), (3, 30)], since=2)

    assert sorted(memory.keys()) == [20, 30]
    assert memory.with_load(Bound(3, closed=True), [(4, 40)]).keys() == [30, 40]


def test_many_small_loads_are_forgotten_as_they_fall_out_of_the_lag() -> None:
    memory, lag = Memory(COLUMNS, None, ()), 1000

    for at in range(5000):
        memory = memory.with_load(Bound(at - lag, closed=True), [(at, at)])

    assert set(range(4000, 5000)) <= set(memory.keys())
    assert len(memory.keys()) < lag * 1.1
    assert len(memory.groups) <= GROUPS


def test_a_range_begins_at_the_latest_of_its_bounds() -> None:
    assert latest((None, Bound(1, closed=True), Bound(0, closed=False))) == Bound(1, closed=True)
    assert latest((Bound(1, closed=True), Bound(1, closed=False))) == Bound(1, closed=False)
    assert latest((None, None)) is None


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ("2013-12-31", "not written by an incremental load"),
        ({"value": 7}, "not written by an incremental load"),
        ({"cursor": "id", "type": "integer", "value": 7}, "for the cursor `id`"),
        ({"cursor": "at", "type": "date", "value": "2013-12-31"}, "of the type date"),
        ({"cursor": "at", "type": "integer", "value": "7"}, "is '7'"),
        (
            {
                "cursor": "at",
                "type": "integer",
                "value": 7,
                "seen": {"columns": {"id": "bigint"}, "keys": [[7, "!!!"]]},
            },
            "is damaged",
        ),
    ],
)
def test_a_watermark_of_another_kind_is_refused(stored: Any, message: str) -> None:
    with pytest.raises(HoldfastError, match=message) as raised:
        from_json(stored, CURSOR, "`watermark` of asset `orders`")

    assert raised.value.hint


def test_a_watermark_belongs_to_the_column_that_the_session_means() -> None:
    stored = {"cursor": "AT", "type": "integer", "value": 7}
    strict = cursor_of(SourceColumn(("at",), LongType()), case_sensitive=True)

    assert from_json(stored, CURSOR, "it") == Watermark(7)
    with pytest.raises(HoldfastError, match="for the cursor `AT`"):
        from_json(stored, strict, "it")
