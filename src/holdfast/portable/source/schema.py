"""The tables of the data source as Spark schemas."""

from __future__ import annotations

from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from holdfast.errors import InvalidType
from holdfast.portable.report_tables import DOUBLE, INTEGER, LONG, TABLES, TIME, kind_of

_TYPES: dict[str, DataType] = {
    INTEGER: IntegerType(),
    LONG: LongType(),
    DOUBLE: DoubleType(),
    TIME: TimestampType(),
}


def full_schema(table: str) -> StructType:
    """Return the schema of the whole table."""
    return StructType([field_of(table, column) for column in TABLES[table]])


def field_of(table: str, column: str) -> StructField:
    """Return the field of one column; raise InvalidInput if there is no such column."""
    return StructField(column, _TYPES.get(kind_of(table, column), StringType()))


def check_schema(table: str, schema: StructType) -> None:
    """Raise InvalidType unless the fields of a user's schema have the types of the columns."""
    for given in schema.fields:
        known = field_of(table, given.name).dataType
        if given.dataType != known:
            raise InvalidType(
                f"the column `{given.name}` of the table `{table}` is read as "
                f"{known.simpleString()}, not as {given.dataType.simpleString()}",
                hint="remove the schema, and cast the column of the DataFrame",
            )
