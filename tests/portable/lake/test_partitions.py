# ruff: noqa: DTZ001
"""Values of partition columns as text, and as names of directories."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.portable.lake.partitions import directory, partition_text, values_in

TEXTS = st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=4), max_size=3)


@given(TEXTS.filter(bool))
def test_the_values_can_be_read_from_the_name_of_their_directory(texts: list[str | None]) -> None:
    name = directory(texts)

    assert values_in(name) == texts
    assert re.fullmatch(r"[A-Za-z0-9~-][A-Za-z0-9_.~,-]*", name)


@given(TEXTS.filter(bool), TEXTS.filter(bool))
def test_different_values_have_different_directories(
    one: list[str | None], other: list[str | None]
) -> None:
    assert (directory(one) == directory(other)) == (one == other)


def test_long_values_have_short_and_different_names() -> None:
    one, other = directory(["ü" * 4000 + "a"]), directory(["ü" * 4000 + "b"])

    assert one != other
    assert len(one) <= 180 and len(other) <= 180
    with pytest.raises(InvalidInput, match="does not contain the whole values"):
        values_in(one)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", ""),
        ("a/b", "a/b"),
        (True, "true"),
        (-7, "-7"),
        (1.5, "1.5"),
        (Decimal("1E+3"), "1000"),
        (Decimal("-0.10"), "-0.10"),
        (date(1, 2, 3), "0001-02-03"),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999), "1969-12-31 23:59:59.999999"),
        (datetime(1969, 12, 31, 23, tzinfo=UTC), "1969-12-31T23:00:00.000000Z"),
        (
            datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
            "1969-12-31T23:00:00.000000Z",
        ),
    ],
)
def test_text_of_a_value(value: Any, text: str | None) -> None:
    assert partition_text(value) == text


def test_bytes_cannot_be_a_partition() -> None:
    with pytest.raises(InvalidInput, match="cannot be the value of a partition column"):
        partition_text(b"\x00")
