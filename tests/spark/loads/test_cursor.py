"""Cursor columns: types, exact storage, lag and lookup by name."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types as t

from holdfast.errors import InvalidInput, InvalidType
from holdfast.spark.loads.column_lookup import Columns, SourceColumn
from holdfast.spark.loads.cursor import Cursor, cursor_of

NEW_YORK = timezone(timedelta(hours=-5))
LOCAL = datetime(2013, 12, 31, 23, 59)  # noqa: DTZ001
CURSORS: list[tuple[t.DataType, Any, Any]] = [
    (
        t.TimestampType(),
        datetime(2013, 12, 31, 18, 59, 0, 1, tzinfo=NEW_YORK),
        "2013-12-31T23:59:00.000001Z",
    ),
    (t.TimestampNTZType(), LOCAL, "2013-12-31T23:59:00.000000"),
    (t.DateType(), date(2013, 12, 31), "2013-12-31"),
    (t.ByteType(), -128, -128),
    (t.LongType(), 2**63 - 1, 2**63 - 1),
    (
        t.DecimalType(38, 10),
        Decimal("-1234567890123456789012345678.0000000001"),
        "-1234567890123456789012345678.0000000001",
    ),
    (t.DecimalType(38, 0), Decimal("9" * 38), "9" * 38),
    (t.StringType(), "ångström`'\"\\", "ångström`'\"\\"),
]


def cursor(spark_type: t.DataType) -> Cursor:
    return cursor_of(SourceColumn(("at",), spark_type))


@pytest.mark.parametrize(("spark_type", "value", "stored"), CURSORS)
def test_a_value_is_stored_exactly(spark_type: t.DataType, value: Any, stored: Any) -> None:
    kind = cursor(spark_type)

    assert kind.as_json(value) == stored
    assert kind.given("the watermark", stored) == value


@pytest.mark.parametrize(
    ("spark_type", "value"),
    [
        (t.TimestampType(), datetime(2013, 1, 1)),  # noqa: DTZ001
        (t.TimestampType(), "2013-01-01T00:00:00"),
        (t.TimestampType(), date(2013, 1, 1)),
        (t.TimestampNTZType(), datetime(2013, 1, 1, tzinfo=UTC)),
        (t.DateType(), datetime(2013, 1, 1, tzinfo=UTC)),
        (t.DateType(), "today"),
        (t.LongType(), 1.0),
        (t.LongType(), True),
        (t.LongType(), "7"),
        (t.DecimalType(10, 2), 1.5),
        (t.DecimalType(10, 2), "NaN"),
        (t.StringType(), 7),
    ],
)
def test_a_value_of_another_type_is_refused(spark_type: t.DataType, value: Any) -> None:
    with pytest.raises(InvalidType, match="initial is .*`at` has the type") as raised:
        cursor(spark_type).given("initial", value)

    assert "like this" in raised.value.hint


@pytest.mark.parametrize(
    ("spark_type", "value"),
    [
        (t.IntegerType(), 2**31),
        (t.DecimalType(4, 2), Decimal("100")),
        (t.DecimalType(4, 2), Decimal("0.001")),
    ],
)
def test_a_value_out_of_the_columns_range_is_refused(spark_type: t.DataType, value: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot hold"):
        cursor(spark_type).given("initial", value)


@pytest.mark.parametrize(
    ("spark_type", "value", "lag", "earlier"),
    [
        (
            t.TimestampType(),
            datetime(2013, 1, 1, tzinfo=UTC),
            timedelta(microseconds=1),
            datetime(2012, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        ),
        (t.DateType(), date(2013, 3, 1), timedelta(days=1), date(2013, 2, 28)),
        (t.DateType(), date(1, 1, 1), timedelta(days=1), None),
        (t.ShortType(), -32768, 1, None),
        (
            t.DecimalType(38, 0),
            Decimal("12345678901234567890123456789012345678"),
            1,
            Decimal("12345678901234567890123456789012345677"),
        ),
    ],
)
def test_a_lag_goes_back_exactly(
    spark_type: t.DataType, value: Any, lag: Any, earlier: Any
) -> None:
    kind = cursor(spark_type)

    assert kind.before(value, kind.given_lag(lag)) == earlier


@pytest.mark.parametrize(
    ("spark_type", "lag"),
    [
        (t.TimestampType(), 3600),
        (t.DateType(), timedelta(hours=1)),
        (t.LongType(), timedelta(hours=1)),
        (t.LongType(), -1),
        (t.DecimalType(10, 2), 0.5),
        (t.StringType(), 1),
    ],
)
def test_a_lag_that_does_not_fit_the_cursor_is_refused(spark_type: t.DataType, lag: Any) -> None:
    with pytest.raises((InvalidType, InvalidInput), match="lag is"):
        cursor(spark_type).given_lag(lag)


@pytest.mark.parametrize(
    "spark_type",
    [
        t.DoubleType(),
        t.BooleanType(),
        t.BinaryType(),
        t.NullType(),
        t.StringType("UNICODE_CI"),
        t.ArrayType(t.LongType()),
    ],
)
def test_a_type_without_an_exact_order_is_refused(spark_type: t.DataType) -> None:
    with pytest.raises(InvalidType, match="the cursor `at` has the type"):
        cursor(spark_type)


def fields(*names: str) -> t.StructType:
    return t.StructType([t.StructField(name, t.LongType()) for name in names])


@pytest.mark.parametrize("names", [["When", "id"], ["at", "at"], ["at", "AT"]])
def test_a_missing_or_ambiguous_column_is_refused(names: list[str]) -> None:
    with pytest.raises(InvalidInput, match="columns? of that name") as raised:
        Columns(fields(*names)).find("at", "the cursor")

    assert ", ".join(names) in raised.value.hint


def test_a_column_is_found_by_the_case_sensitivity_of_the_session() -> None:
    schema = fields("At", "id")

    assert Columns(schema).find("aT", "the cursor").name == "At"
    with pytest.raises(InvalidInput, match="no column of that name"):
        Columns(schema, case_sensitive=True).find("at", "the cursor")
    assert Columns(fields("at", "AT"), case_sensitive=True).find("AT", "it").name == "AT"


def test_a_dot_leads_into_a_struct_unless_a_column_has_it_in_its_name() -> None:
    schema = t.StructType(
        [
            t.StructField("s", t.StructType([t.StructField("In`ner", fields("at"))])),
            t.StructField("s.at", t.DateType()),
        ]
    )
    columns = Columns(schema)

    assert columns.find("s.in`ner.at", "the cursor").sql == "`s`.`In``ner`.`at`"
    assert columns.find("s.at", "the cursor") == SourceColumn(("s.at",), t.DateType())
    with pytest.raises(InvalidInput, match="no column of that name"):
        columns.find("s.at.more", "the cursor")


NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("spark_type", "now", "horizon", "over"),
    [
        (t.TimestampType(), NOW, NOW + timedelta(minutes=5), NOW - timedelta(minutes=5)),
        (
            t.TimestampNTZType(),
            datetime(2026, 1, 31, 12),  # noqa: DTZ001
            datetime(2026, 2, 1, 2, 5),  # noqa: DTZ001
            datetime(2026, 1, 30, 23, 55),  # noqa: DTZ001
        ),
        (t.DateType(), date(2026, 1, 31), date(2026, 2, 1), date(2026, 1, 29)),
    ],
)
def test_a_time_is_past_in_every_time_zone(
    spark_type: t.DataType, now: Any, horizon: Any, over: Any
) -> None:
    kind = cursor(spark_type)

    assert kind.at(NOW) == now
    assert kind.horizon(NOW) == horizon
    assert kind.is_over(over, NOW)
    assert not kind.is_over(horizon, NOW)


def test_numbers_and_text_are_never_past() -> None:
    assert cursor(t.LongType()).horizon(NOW) is None
    assert not cursor(t.LongType()).is_over(-(2**63), NOW)
    with pytest.raises(InvalidType, match="until is relative to now"):
        cursor(t.StringType()).at(NOW)


def test_a_time_out_of_pythons_range_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="out of range"):
        cursor(t.TimestampType()).from_observed(str(10**18))
