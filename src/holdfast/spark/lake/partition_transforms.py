"""Values of partitions that are computed from columns, such as the day of a time, in Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from holdfast.errors import NotSupported
from holdfast.spark.lake.table import PartitionColumn
from holdfast.spark.loads.column_lookup import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

HELPER: Final = "holdfast.partition."
"""The prefix of the columns that have the values of partitions. They are in no file."""
_TRUNCATE: Final = re.compile(r"truncate\[(\d+)\]")
_PER_HOUR: Final = 3_600_000_000
_PER_DAY: Final = 24 * _PER_HOUR


def with_partitions(
    df: DataFrame, partition_by: Sequence[PartitionColumn]
) -> tuple[DataFrame, list[str]]:
    """Return rows with a column for each partition value, and the names of these columns.

    Raise NotSupported for a transform that is not known here.
    """
    names = [f"{HELPER}{number}" for number in range(len(partition_by))]
    schema = df.schema
    values = {
        name: _value(column, schema[column.name].dataType)
        for name, column in zip(names, partition_by, strict=True)
    }
    return df.withColumns(values), names


def _value(column: PartitionColumn, kind: DataType) -> Column:
    from pyspark.sql import functions as f

    source = f.col(quoted(column.name))
    if column.transform == "identity":
        return source
    if (found := _TRUNCATE.fullmatch(column.transform)) is not None:
        return _truncated(source, kind, int(found[1]))
    if column.transform == "day":
        return f.date_add(f.lit("1970-01-01").cast("date"), _days(source, kind).cast("int"))
    if column.transform == "hour":
        return _whole(_micros(source, kind), _PER_HOUR).cast("int")
    day = f.date_add(f.lit("1970-01-01").cast("date"), _days(source, kind).cast("int"))
    if column.transform == "year":
        return f.year(day) - 1970
    if column.transform == "month":
        return (f.year(day) - 1970) * 12 + f.month(day) - 1
    raise NotSupported(
        f"partitioning by {column.transform} of `{column.name}` is not supported",
        hint="use a column, or year(…), month(…), day(…), hour(…) or truncate(3, …) of one",
    )


def _days(source: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as f

    if kind.typeName() == "date":
        return f.unix_date(source)
    return _whole(_micros(source, kind), _PER_DAY)


def _micros(source: Column, kind: DataType) -> Column:
    """Return the microseconds since 1970, whatever the session's time zone is."""
    from pyspark.sql import functions as f

    if kind.typeName() == "timestamp":
        return f.unix_micros(source)
    return f.timestamp_diff("MICROSECOND", f.expr("TIMESTAMP_NTZ '1970-01-01'"), source)


def _whole(micros: Column, size: int) -> Column:
    """Return the number of whole units, rounded down."""
    from pyspark.sql import functions as f

    return ((micros - f.pmod(micros, f.lit(size))) / size).cast("long")


def _truncated(source: Column, kind: DataType, width: int) -> Column:
    from pyspark.sql import functions as f

    if kind.typeName() == "string":
        return f.substring(source, 1, width)
    if kind.typeName() == "decimal":
        unit = f.lit(width).cast("decimal(10,0)") * f.lit(f"1e-{kind.scale}").cast(kind)  # type: ignore[attr-defined]
        return (source - f.pmod(source, unit)).cast(kind)
    return (source - f.pmod(source, f.lit(width))).cast(kind)
