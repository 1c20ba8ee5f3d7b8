"""Types of Iceberg's columns and partitions, as Spark and data files have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pyiceberg import transforms
from pyiceberg import types as theirs
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema

from holdfast.errors import InvalidInput, NotSupported, TableChanged
from holdfast.spark.lake.table import PartitionColumn

if TYPE_CHECKING:
    from pyspark.sql import types as spark

_TO_SPARK: Final[dict[type[theirs.IcebergType], str]] = {
    theirs.BooleanType: "BooleanType",
    theirs.IntegerType: "IntegerType",
    theirs.LongType: "LongType",
    theirs.FloatType: "FloatType",
    theirs.DoubleType: "DoubleType",
    theirs.DateType: "DateType",
    theirs.TimestampType: "TimestampNTZType",
    theirs.TimestamptzType: "TimestampType",
    theirs.StringType: "StringType",
    theirs.BinaryType: "BinaryType",
}
_FROM_SPARK: Final[dict[str, theirs.PrimitiveType]] = {
    "boolean": theirs.BooleanType(),
    "byte": theirs.IntegerType(),
    "short": theirs.IntegerType(),
    "integer": theirs.IntegerType(),
    "long": theirs.LongType(),
    "float": theirs.FloatType(),
    "double": theirs.DoubleType(),
    "date": theirs.DateType(),
    "timestamp_ntz": theirs.TimestampType(),
    "timestamp": theirs.TimestamptzType(),
    "string": theirs.StringType(),
    "varchar": theirs.StringType(),
    "char": theirs.StringType(),
    "binary": theirs.BinaryType(),
}
_SUPPORTED: Final = (
    transforms.IdentityTransform,
    transforms.YearTransform,
    transforms.MonthTransform,
    transforms.DayTransform,
    transforms.HourTransform,
    transforms.TruncateTransform,
)
"""The transforms whose values are computed for the files of an append."""
UNPARTITIONABLE: Final = (theirs.BinaryType, theirs.FloatType, theirs.DoubleType)
"""Types without a text for a partition, or whose values PyIceberg rounds in manifests."""
_PARTITIONABLE: Final = (
    "partition by columns of text, whole numbers, decimals, dates, times or booleans"
)


def spark_schema(schema: Schema) -> spark.StructType:
    """Return the columns of a table in Spark's types. Raise NotSupported for a type that Spark does
    not have."""
    from pyspark.sql import types as spark

    return spark.StructType([_spark_field(field, field.name) for field in schema.fields])


def _spark_field(field: theirs.NestedField, where: str) -> spark.StructField:
    from pyspark.sql import types as spark

    return spark.StructField(field.name, spark_type(field.field_type, where), field.optional)


def spark_type(kind: theirs.IcebergType, where: str) -> spark.DataType:
    from pyspark.sql import types as spark

    match kind:
        case theirs.DecimalType():
            return spark.DecimalType(kind.precision, kind.scale)
        case theirs.StructType():
            return spark.StructType(
                [_spark_field(field, f"{where}.{field.name}") for field in kind.fields]
            )
        case theirs.ListType():
            element = spark_type(kind.element_type, f"{where}[]")
            return spark.ArrayType(element, not kind.element_required)
        case theirs.MapType():
            key = spark_type(kind.key_type, f"{where}.key")
            value = spark_type(kind.value_type, f"{where}.value")
            return spark.MapType(key, value, not kind.value_required)
    if (name := _TO_SPARK.get(type(kind))) is not None:
        made: spark.DataType = getattr(spark, name)()
        return made
    raise NotSupported(
        f"the column `{where}` of the table is of the type {kind}, which is not supported",
        hint="use a table without such a column",
    )


def iceberg_schema(schema: spark.StructType) -> Schema:
    """Return columns in Iceberg's types. Raise InvalidInput for a type that Iceberg does not have,
    and for two columns of one name.

    The ids are provisional: a new table has others.
    """
    ids = count(1)
    fields = _fields(schema, ids, "")
    try:
        return Schema(*fields)
    except ValueError as error:
        raise InvalidInput(
            f"Iceberg cannot tell two of the columns apart: {error}",
            hint="rename one: a field `b` of `a` has the same name as a column `a.b`",
        ) from error


def iceberg_type(kind: spark.DataType, where: str) -> theirs.IcebergType:
    """Return a type of Iceberg with provisional ids. Raise InvalidInput if there is none."""
    return _iceberg_type(kind, count(1), where)


def _fields(schema: spark.StructType, ids: count[int], where: str) -> list[theirs.NestedField]:
    numbered = [(next(ids), field) for field in schema]
    return [
        theirs.NestedField(
            number,
            field.name,
            _iceberg_type(field.dataType, ids, f"{where}{field.name}"),
            required=not field.nullable,
        )
        for number, field in numbered
    ]


def _iceberg_type(kind: spark.DataType, ids: count[int], where: str) -> theirs.IcebergType:
    from pyspark.sql import types as spark

    match kind:
        case spark.DecimalType():
            return theirs.DecimalType(kind.precision, kind.scale)
        case spark.StructType():
            return theirs.StructType(*_fields(kind, ids, f"{where}."))
        case spark.ArrayType():
            number = next(ids)
            element = _iceberg_type(kind.elementType, ids, f"{where}[]")
            return theirs.ListType(number, element, not kind.containsNull)
        case spark.MapType():
            key_id, value_id = next(ids), next(ids)
            key = _iceberg_type(kind.keyType, ids, f"{where}.key")
            value = _iceberg_type(kind.valueType, ids, f"{where}.value")
            return theirs.MapType(key_id, key, value_id, value, not kind.valueContainsNull)
    if (found := _FROM_SPARK.get(kind.typeName())) is not None:
        return found
    raise InvalidInput(
        f"`{where}` is of type {kind.simpleString()}, which Iceberg tables do not store",
        hint=f"convert it: df.withColumn({where!r}, col({where!r}).cast('string'))",
    )


def partition_spec(schema: Schema, columns: Sequence[PartitionColumn]) -> PartitionSpec:
    """Return the partitioning of a new table. Raise InvalidInput for an unknown column, or one that
    cannot be partitioned in this way, and NotSupported for a transform whose values Spark does not
    compute."""
    fields = []
    for number, column in enumerate(columns, PARTITION_FIELD_ID_START):
        source = next((one for one in schema.fields if one.name == column.name), None)
        if source is None:
            raise InvalidInput(
                f"partition_by has `{column.name}`, which is not a column of the rows",
                hint=f"the columns: {', '.join(field.name for field in schema.fields)}",
            )
        transform = parsed_transform(column)
        kind = source.field_type
        if not transform.can_transform(kind) or isinstance(kind, UNPARTITIONABLE):
            raise InvalidInput(
                f"partition_by has {column.transform} of `{column.name}`, which is of type {kind}",
                hint=f"{_PARTITIONABLE}, or by the year, month, day or hour of a time",
            )
        name = column.name
        if column.transform != "identity":
            name = f"{name}_{column.transform.partition('[')[0].removesuffix('ate')}"
        fields.append(PartitionField(source.field_id, number, transform, name))
    return PartitionSpec(*fields)


def parsed_transform(column: PartitionColumn) -> transforms.Transform[Any, Any]:
    """Return a transform. Raise InvalidInput for an unknown one, NotSupported for one whose values
    are not computed."""
    try:
        found = transforms.parse_transform(column.transform)
    except ValueError:
        found = transforms.UnknownTransform(column.transform)
    if isinstance(found, _SUPPORTED):
        return found
    error = InvalidInput if isinstance(found, transforms.UnknownTransform) else NotSupported
    raise error(
        f"partitioning by {column.transform} of `{column.name}` is not supported",
        hint="use a column, or year(…), month(…), day(…), hour(…) or truncate(3, …) of one",
    )


def partition_value(
    transform: transforms.Transform[Any, Any], kind: theirs.IcebergType, text: str | None
) -> Any:
    """Return a partition's value in the form in which manifests have it.

    Raise TableChanged if the text is no value of the transform: the table is partitioned in another
    way than the files were written for.
    """
    if text is None:
        return None
    with suppress(ValueError, TypeError, LookupError, ArithmeticError):
        value = _parser(kind)(text)
        truncates = isinstance(transform, transforms.TruncateTransform)
        if not truncates or transform.transform(kind)(value) == value:
            return value
    raise TableChanged(
        f"{text!r} is not a partition value of {transform} and the type {kind}: the table's "
        "partitioning has changed while rows were written for it",
        hint="run this again",
    )


def _parser(kind: theirs.IcebergType) -> Callable[[str], Any]:
    match kind:
        case theirs.StringType():
            return str
        case theirs.IntegerType() | theirs.LongType():
            return int
        case theirs.DecimalType():
            return Decimal
        case theirs.BooleanType():
            return {"true": True, "false": False}.__getitem__
        case theirs.DateType():
            return lambda text: (date.fromisoformat(text) - date(1970, 1, 1)).days
        case theirs.TimestampType():
            return lambda text: _micros(datetime.fromisoformat(text) - datetime(1970, 1, 1))  # noqa: DTZ001
        case theirs.TimestamptzType():
            start = datetime(1970, 1, 1, tzinfo=UTC)
            return lambda text: _micros(datetime.fromisoformat(text) - start)
    raise NotSupported(
        f"partitioning by a column of the type {kind} is not supported",
        hint=_PARTITIONABLE,
    )


def _micros(time: timedelta) -> int:
    return time // timedelta(microseconds=1)
