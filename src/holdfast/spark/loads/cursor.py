"""The cursor column of an incremental load: its possible types, and their exact values.

A value has three representations: in the store's JSON, as a literal of Spark, and as observed by
Spark. Each type defines them, so that nothing depends on the time zone of the session or driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from holdfast.errors import InvalidInput, InvalidType
from holdfast.spark.loads.column_lookup import SourceColumn

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, DecimalType

Value: TypeAlias = datetime | date | int | Decimal | str
Lag: TypeAlias = timedelta | int | Decimal
V = TypeVar("V", bound=Value)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_EXACT: Final = Context(prec=100)
_CLOCKS: Final = timedelta(minutes=5)
"""The maximum by which the clock of a source may be ahead of ours."""
_EAST: Final = timedelta(hours=14)
_WEST: Final = timedelta(hours=12)
"""The maximum offsets of local times from UTC, for values without a time zone."""
_ZONES: Final = timedelta(days=2)
_LARGEST_IN_JSON: Final = 2**53
_NEW_CALENDARS: Final = 1900
"""From this year on, two readings of a time in different zones are at most `_ZONES` apart."""


class Cursor(ABC, Generic[V]):
    """The column whose values determine which rows are new."""

    kind: ClassVar[str]
    """The name of the type in the store's JSON."""
    example: ClassVar[str]
    lag_example: ClassVar[str]

    def __init__(self, source: SourceColumn, *, case_sensitive: bool = False) -> None:
        self.source = source
        self.name = source.name
        self.spark_type = source.type
        self._case_sensitive = case_sensitive

    def is_called(self, name: str) -> bool:
        """Return whether a name means this column, by the case rule of the session."""
        return name == self.name or (not self._case_sensitive and name.lower() == self.name.lower())

    @property
    def column(self) -> Column:
        return self.source.column

    def at(self, moment: datetime) -> V:
        """Return the cursor value of a moment. Raise InvalidType unless the cursor is a time."""
        raise InvalidType(
            f"until is relative to now, but the cursor `{self.name}` has the type {self.kind}",
            hint=f"write it like this: until={self.example}",
        )

    def horizon(self, now: datetime) -> V | None:
        """Return the highest value that a row can have at that time; None if there is no limit."""
        return None

    def is_over(self, value: V, now: datetime) -> bool:
        """Return whether no row that is created from now on has a value up to this one."""
        return False

    def given(self, what: str, value: Any) -> V:
        """Return a value from the caller or the store's JSON as the cursor's type. Raise
        InvalidType for another type, and InvalidInput for a value that the column cannot hold."""
        fits = False
        try:
            accepted = self._accept(value)
            fits = accepted is not None and self._fits(accepted)
        except (ValueError, InvalidOperation):
            accepted = None
        except ArithmeticError:  # too large
            accepted = value
        if accepted is None:
            raise InvalidType(
                f"{what} is {value!r}, but the cursor `{self.name}` has the type {self.kind}",
                hint=f"write it like this: {self.example}",
            )
        if not fits:
            raise InvalidInput(
                f"{what} is {value!r}, which the cursor `{self.name}` of the type "
                f"{self.spark_type.simpleString()} cannot hold"
            )
        return accepted

    def given_lag(self, lag: Any) -> Lag:
        """Return the lag, the interval by which rows may be late. Raise InvalidType for another
        type, and InvalidInput for a negative one."""
        accepted = self._accept_lag(lag)
        if accepted is None:
            raise InvalidType(
                f"lag is {lag!r}, but the cursor `{self.name}` has the type {self.kind}",
                hint=f"write it like this: {self.lag_example}",
            )
        if accepted < type(accepted)(0):  # type: ignore[operator]
            raise InvalidInput(f"lag is {lag!r}", hint="give how far to go back, not negative")
        return accepted

    def before(self, value: V, lag: Lag) -> V | None:
        """Return the value that far back; None if the type has none."""
        try:
            earlier = self._minus(value, lag)
        except ArithmeticError:
            return None
        return earlier if self._fits(earlier) else None

    def beside(self, value: V, direction: int) -> V | None:
        """Return a value so far below (-1) or above (1) this one that no database confuses the two;
        None if there is none."""
        margin = self._margin(value)
        if margin is None:
            return None
        try:
            shifted = self._minus(value, margin if direction < 0 else -margin)
        except ArithmeticError:
            return None
        return shifted if self._fits(shifted) else None

    def as_json(self, value: V) -> str | int:
        return str(value)

    def in_name(self, value: V) -> str:
        """Return the value as it appears in the name of a backfill."""
        return str(self.as_json(value))

    def observed(self, column: Column) -> Column:
        """Return the text of a value, as Spark produces it; `from_observed` parses it."""
        return column.cast("string")

    def from_observed(self, text: str) -> V:
        try:
            return self._read(text)
        except (ValueError, OverflowError):
            raise InvalidInput(
                f"the cursor `{self.name}` has the value {text}, which is out of range",
                hint="filter such rows out before the load: years go from 1 to 9999",
            ) from None

    def literal(self, value: V) -> Column:
        """Return a literal of exactly the column's type: a cast of the column would prevent the
        source from filtering."""
        from pyspark.sql import functions

        return functions.lit(self.as_json(value)).cast(self.spark_type)

    @abstractmethod
    def _accept(self, value: Any) -> V | None: ...

    def _read(self, text: str) -> V:
        value = self._accept(text)
        if value is None:
            raise ValueError(text)
        return value

    def _fits(self, value: V) -> bool:
        return True

    def _accept_lag(self, lag: Any) -> Lag | None:
        return lag if isinstance(lag, timedelta) else None

    def _minus(self, value: Any, lag: Any) -> V:
        return value - lag  # type: ignore[no-any-return]

    def _margin(self, value: Any) -> Any:
        """Return the maximum error of a database in comparing with this value; None: unlimited."""
        return _ZONES if value.year >= _NEW_CALENDARS else None


class TimestampCursor(Cursor[datetime]):
    """A point in time, in whichever time zone it is shown."""

    kind = "timestamp"
    example = "datetime(2026, 1, 31, tzinfo=UTC), or '2026-01-31T00:00:00Z'"
    lag_example = "timedelta(hours=2)"

    def at(self, moment: datetime) -> datetime:
        return moment.astimezone(UTC)

    def horizon(self, now: datetime) -> datetime:
        return now + _CLOCKS

    def is_over(self, value: datetime, now: datetime) -> bool:
        return value <= now - _CLOCKS

    def as_json(self, value: datetime) -> str:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"

    def observed(self, column: Column) -> Column:
        from pyspark.sql import functions

        return functions.unix_micros(column).cast("string")

    def _read(self, text: str) -> datetime:
        return _EPOCH + timedelta(microseconds=int(text))

    def literal(self, value: datetime) -> Column:
        from pyspark.sql import functions

        return functions.timestamp_micros(functions.lit((value - _EPOCH) // _MICROSECOND))

    def in_name(self, value: datetime) -> str:
        return _without_colons(self.as_json(value))

    def _accept(self, value: Any) -> datetime | None:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            return None
        return moment.astimezone(UTC)


class LocalTimestampCursor(Cursor[datetime]):
    """A date and time without a time zone."""

    kind = "timestamp_ntz"
    example = "datetime(2026, 1, 31), or '2026-01-31T00:00:00'"
    lag_example = "timedelta(hours=2)"

    def at(self, moment: datetime) -> datetime:
        return moment.astimezone(UTC).replace(tzinfo=None)

    def horizon(self, now: datetime) -> datetime:
        return self.at(now + _EAST + _CLOCKS)

    def is_over(self, value: datetime, now: datetime) -> bool:
        return value <= self.at(now - _WEST - _CLOCKS)

    def as_json(self, value: datetime) -> str:
        return value.isoformat(timespec="microseconds")

    def in_name(self, value: datetime) -> str:
        return _without_colons(self.as_json(value))

    def _accept(self, value: Any) -> datetime | None:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment if isinstance(moment, datetime) and moment.tzinfo is None else None


class DateCursor(Cursor[date]):
    kind = "date"
    example = "date(2026, 1, 31), or '2026-01-31'"
    lag_example = "timedelta(days=2)"

    def at(self, moment: datetime) -> date:
        return moment.astimezone(UTC).date()

    def horizon(self, now: datetime) -> date:
        return self.at(now + _EAST + _CLOCKS)

    def is_over(self, value: date, now: datetime) -> bool:
        return value < self.at(now - _WEST - _CLOCKS)

    def as_json(self, value: date) -> str:
        return value.isoformat()

    def _accept(self, value: Any) -> date | None:
        day = date.fromisoformat(value) if isinstance(value, str) else value
        return day if isinstance(day, date) and not isinstance(day, datetime) else None

    def _accept_lag(self, lag: Any) -> Lag | None:
        return lag if isinstance(lag, timedelta) and not lag % timedelta(days=1) else None


class IntegerCursor(Cursor[int]):
    kind = "integer"
    example = "1042"
    lag_example = "100"

    def as_json(self, value: int) -> int:
        return value

    def _accept(self, value: Any) -> int | None:
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def _read(self, text: str) -> int:
        return int(text)

    def _margin(self, value: int) -> Any:
        return 0

    def _fits(self, value: int) -> bool:
        bits = {"tinyint": 8, "smallint": 16, "int": 32}.get(self.spark_type.simpleString(), 64)
        return bool(-(2 ** (bits - 1)) <= value < 2 ** (bits - 1))

    def _accept_lag(self, lag: Any) -> Lag | None:
        return lag if isinstance(lag, int) and not isinstance(lag, bool) else None


class VersionCursor(IntegerCursor):
    """The version of a lake table: no column, but the table's history."""

    kind = "version"
    example = "12"

    def __init__(self, name: str) -> None:
        from pyspark.sql.types import LongType

        super().__init__(SourceColumn((name,), LongType()))

    def as_json(self, value: int) -> int | str:  # type: ignore[override]
        # Not every reader of JSON has integers that are as large as the ids of snapshots.
        return value if abs(value) < _LARGEST_IN_JSON else str(value)

    def _accept(self, value: Any) -> int | None:
        return super()._accept(int(value) if isinstance(value, str) else value)


class DecimalCursor(Cursor[Decimal]):
    kind = "decimal"
    spark_type: DecimalType
    example = "Decimal('10.42'), or '10.42'"
    lag_example = "Decimal('0.50')"

    def as_json(self, value: Decimal) -> str:
        return format(value, "f")

    def in_name(self, value: Decimal) -> str:
        return format(value.normalize(_EXACT), "f")

    def _accept(self, value: Any) -> Decimal | None:
        if isinstance(value, bool) or not isinstance(value, Decimal | int | str):
            return None
        number = Decimal(value)
        return number if number.is_finite() else None

    def _fits(self, value: Decimal) -> bool:
        scaled = value.scaleb(self.spark_type.scale, _EXACT)
        whole = scaled == scaled.to_integral_value(context=_EXACT)
        return whole and scaled.copy_abs() < Decimal(10) ** self.spark_type.precision

    def _accept_lag(self, lag: Any) -> Lag | None:
        if isinstance(lag, bool) or not isinstance(lag, Decimal | int):
            return None
        return Decimal(lag) if Decimal(lag).is_finite() else None

    def _minus(self, value: Decimal, lag: Any) -> Decimal:
        return _EXACT.subtract(value, lag)

    def _margin(self, value: Decimal) -> Any:
        return Decimal(1).scaleb(-self.spark_type.scale)  # a database may have more digits


class StringCursor(Cursor[str]):
    """Text, in the order of its bytes."""

    kind = "string"
    example = "'2026-01-31'"
    lag_example = "a text cursor has no lag"

    def observed(self, column: Column) -> Column:
        from pyspark.sql import functions

        return functions.hex(column.cast("binary"))  # keeps bytes that are not valid text

    def from_observed(self, text: str) -> str:
        try:
            return bytes.fromhex(text).decode()
        except UnicodeDecodeError:
            raise InvalidInput(
                f"the cursor `{self.name}` has the bytes {text[:40]}, which are not valid UTF-8",
                hint="filter such rows out before the load: where is_valid_utf8(…)",
            ) from None

    def _accept(self, value: Any) -> str | None:
        return value if isinstance(value, str) else None

    def _margin(self, value: str) -> None:
        return None  # a collation may order text in any way

    def _accept_lag(self, lag: Any) -> Lag | None:
        return None


def _without_colons(moment: str) -> str:
    return moment.replace(":", "").replace(".000000", "")


def cursor_of(source: SourceColumn, *, case_sensitive: bool = False) -> Cursor[Value]:
    """Return the cursor for a column. Raise InvalidType if its type cannot be a cursor's."""
    from pyspark.sql import types as t

    kinds: dict[type[DataType], type[Cursor[Any]]] = {
        t.TimestampType: TimestampCursor,
        t.TimestampNTZType: LocalTimestampCursor,
        t.DateType: DateCursor,
        t.ByteType: IntegerCursor,
        t.ShortType: IntegerCursor,
        t.IntegerType: IntegerCursor,
        t.LongType: IntegerCursor,
        t.DecimalType: DecimalCursor,
        t.StringType: StringCursor,
    }
    name, simple = source.name, source.type.simpleString()
    kind = kinds.get(type(source.type))
    if kind is None:
        raise InvalidType(
            f"the cursor `{name}` has the type {simple}",
            hint="a cursor must be a timestamp, date, integer, decimal or string; cast floating "
            "point, which has NaN and rounding, to a decimal",
        )
    if kind is StringCursor and simple != "string":
        raise InvalidType(
            f"the cursor `{name}` has the type {simple}: under a collation, different texts can "
            "be equal",
            hint="use a column without a collation, or cast it to string",
        )
    return kind(source, case_sensitive=case_sensitive)
