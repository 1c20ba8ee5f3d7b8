"""Checks that the rows of a load must pass."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.errors import InvalidInput, InvalidType
from holdfast.spark.loads.column_lookup import Columns, SourceColumn
from holdfast.spark.loads.source import source_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_RULES: Final = ("not_null", "range", "where", "unique", "rows")


class Expectations(NamedTuple):
    """The checks of a load."""

    conditions: dict[str, Column]
    """The condition that each row must satisfy, by the name of the check."""
    unique: dict[str, tuple[SourceColumn, ...]]
    """Columns in which no two rows may be equal, unless one of them is null, as in SQL."""
    rows: tuple[int | None, int | None] | None
    """The minimum and the maximum number of rows that a load may have."""
    given: str = ""
    """The rules as text, to detect whether they have changed."""

    def __bool__(self) -> bool:
        return bool(self.conditions or self.unique or self.rows)

    @property
    def good(self) -> Column:
        """The condition that a row passes every check of single rows."""
        return reduce(and_, (passes(one) for one in self.conditions.values()))


def passes(condition: Column) -> Column:
    """Return the condition with an unknown result, as of a comparison with null, as a failure."""
    from pyspark.sql import functions

    return functions.coalesce(condition, functions.lit(False))


def expectations(df: DataFrame, columns: Columns, given: Any) -> Expectations:
    """Parse the argument `expect`. Raise InvalidInput or InvalidType if it is invalid."""
    if given is None:
        return Expectations({}, {}, None)
    if not isinstance(given, Mapping):
        raise InvalidType(f"expect is {given!r}", hint='expect={"not_null": ["id"]}')
    unknown = [name for name in given if name not in _RULES]
    if unknown:
        raise InvalidInput(
            f"expect has no rule {unknown[0]!r}", hint=f"known rules: {', '.join(_RULES)}"
        )
    conditions: dict[str, Column] = {}
    for name in _names("not_null", given.get("not_null", ())):
        column = columns.find(name, "expect not_null")
        conditions[f"not_null {column.name}"] = column.column.isNotNull()
    for name, limits in _mapping("range", given.get("range", {})).items():
        column = columns.find(name, "expect range")
        conditions[f"range {column.name}"] = _within(df, column, limits)
    for text in _names("where", given.get("where", ())):
        conditions[f"where {text}"] = _checked(df, text)
    unique = tuple(
        columns.find(name, "expect unique") for name in _names("unique", given.get("unique", ()))
    )
    label = f"unique {', '.join(column.name for column in unique)}"
    rows = _pair("rows", given["rows"]) if "rows" in given else None
    if rows and not all(limit is None or type(limit) is int for limit in rows):
        raise InvalidType(f"expect rows is {given['rows']!r}", hint="expect={'rows': (1, None)}")
    return Expectations(conditions, {label: unique} if unique else {}, rows, repr(given))


def _within(df: DataFrame, column: SourceColumn, limits: Any) -> Column:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions
    from pyspark.sql.types import StringType

    low, high = _pair(f"range {column.name}", limits)
    inside = functions.lit(True)
    try:
        if low is not None:
            inside &= column.column >= functions.lit(low)
        if high is not None:
            inside &= column.column <= functions.lit(high)
        comparable = bool(df.select(inside).schema)
    except (PySparkException, AttributeError):  # by Py4J, for no value of Spark's
        comparable = False
    # Spark would try to parse text as a value of the column's type, row by row.
    texts = {isinstance(limit, str) for limit in (low, high) if limit is not None}
    if not comparable or not texts <= {isinstance(column.type, StringType)}:
        raise InvalidType(
            f"expect range {column.name} is {limits!r}, but the column has the type "
            f"{column.type.simpleString()}",
            hint="give limits of that type",
        )
    # Null values are checked by `not_null`.
    return column.column.isNull() | inside


def _checked(df: DataFrame, text: str) -> Column:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions
    from pyspark.sql.types import BooleanType

    try:
        condition = functions.expr(text)
        [field] = df.select(condition).schema.fields
        if isinstance(field.dataType, BooleanType):
            _ = df.where(condition).schema  # raises for a condition that is not about single rows
    except PySparkException as error:
        raise InvalidInput(
            f"expect where {text!r} is not a condition on the rows: "
            f"{str(error).strip().partition(chr(10))[0]}"
        ) from None
    if not isinstance(field.dataType, BooleanType):
        raise InvalidType(
            f"expect where {text!r} has the type {field.dataType.simpleString()}",
            hint="write a condition that is true or false for each row",
        )
    columns = [functions.lit(None).cast(one.dataType).alias(one.name) for one in df.schema]
    if not source_of(df.sparkSession.range(0).select(*columns).where(condition)).is_fixed:
        raise InvalidInput(
            f"expect where {text!r} may depend on the clock, on randomness or on another source",
            hint="it is evaluated more than once, with the same result each time: compare with a "
            "value, as in \"at <= timestamp '2026-01-31 12:00:00'\", or add it as a column of the "
            "DataFrame before the load",
        )
    return condition


def _names(rule: str, given: Any) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidType(f"expect {rule} is {given!r}", hint="give text, or a list of texts")
    return tuple(names)


def _mapping(rule: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidType(f"expect {rule} is {given!r}", hint='{"range": {"amount": (0, None)}}')
    return given


def _pair(rule: str, given: Any) -> tuple[Any, Any]:
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise InvalidType(
            f"expect {rule} is {given!r}", hint="give the minimum and the maximum: (1, None)"
        )
    low, high = given
    try:
        is_empty = low is not None and high is not None and low > high
    except TypeError:
        is_empty = False  # the types are checked elsewhere
    if is_empty:
        raise InvalidInput(
            f"expect {rule} is {given!r}, which no value satisfies", hint="put the minimum first"
        )
    return low, high
