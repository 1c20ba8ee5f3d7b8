"""Records of loads: their stored form, and other values that are no records."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.model.load_record import LoadRecord, as_json, record_in

FULL: dict[str, Any] = {
    "holdfast": "load",
    "name": "load=orders.watermark.000000000042",
    "number": 42,
    "kind": "load",
    "cursor": "changed_at",
    "type": "timestamp",
    "from": "2026-01-31T03:00:00.000000Z",
    "to": "2026-01-31T04:00:00.000000Z",
    "rows": 1234,
    "started_at": "2026-01-31T05:00:00.000000Z",
    "seconds": 3.21,
    "beyond": 2,
    "directories": ["/lake/orders/load=orders.watermark.000000000042"],
    "checks": {"not_null id": 0, "unique id": 0},
    "quarantined": 3,
    "quarantine": "/lake/bad/load=orders.watermark.000000000042",
}


def test_a_record_is_read_as_it_was_stored() -> None:
    record = record_in(msgspec.json.decode(msgspec.json.encode(FULL)))
    assert record is not None
    assert (record.from_, record.directories) == (FULL["from"], tuple(FULL["directories"]))
    assert msgspec.json.decode(msgspec.json.encode(as_json(record))) == FULL


def test_open_bounds_are_null_and_defaults_are_omitted() -> None:
    record = LoadRecord(
        name="load=0",
        number=0,
        kind="load",
        cursor="id",
        type="integer",
        from_=None,
        to=7,
        rows=None,
        started_at="2026-01-31T05:00:00.000000Z",
        seconds=1,
    )
    stored = as_json(record)
    assert stored == {
        "holdfast": "load",
        "name": "load=0",
        "number": 0,
        "kind": "load",
        "cursor": "id",
        "type": "integer",
        "from": None,
        "to": 7,
        "rows": None,
        "started_at": "2026-01-31T05:00:00.000000Z",
        "seconds": 1,
    }
    assert record_in(stored) == record


@pytest.mark.parametrize(
    "value",
    [
        "load",
        7,
        ["load"],
        {},
        {key: value for key, value in FULL.items() if key != "holdfast"},
        FULL | {"holdfast": "rewind"},
        FULL | {"number": "42"},
        {"holdfast": "load"},
    ],
)
def test_another_value_of_a_user_is_not_a_record(value: object) -> None:
    assert record_in(value) is None
