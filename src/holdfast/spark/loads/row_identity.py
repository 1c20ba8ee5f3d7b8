"""The identity of a row: the columns that identify a loaded row, and their hash.

Values are hashed as text that no two different keys share: the end of every value is marked, null
is a value of its own at any depth, and types that a source commonly widens (integers, floating
point, the precision of decimals) have the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.errors import InvalidType
from holdfast.spark.loads.column_lookup import SourceColumn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_NULL: Final = "'N'"


class Identity(NamedTuple):
    """The columns that identify rows: the cursor and the primary key."""

    columns: tuple[SourceColumn, ...]
    case_sensitive: bool = False

    @property
    def kinds(self) -> dict[str, str]:
        """Name and kind of each column: rows hashed under other kinds are not comparable."""
        return {
            column.name if self.case_sensitive else column.name.lower(): kind_of(column.type)
            for column in self.columns
        }

    @property
    def text(self) -> str:
        """SQL for the text of a row's identity."""
        texts = ", ';', ".join(text_of(column.sql, column.type) for column in self.columns)
        return f"concat({texts})"

    @property
    def hash(self) -> str:
        """SQL for the 64-bit hash of a row's identity."""
        return f"xxhash64({self.text})"

    def distinct(self, rows: DataFrame) -> DataFrame:
        """Return the rows with only one of several rows with the same identity."""
        from pyspark.sql import functions

        if all(_is_comparable(column) for column in self.columns):
            return rows.dropDuplicates([column.name for column in self.columns])
        name, taken = "holdfast_identity", {column.lower() for column in rows.columns}
        while name in taken:
            name += "_"
        marked = rows.withColumn(name, functions.expr(self.text))
        return marked.dropDuplicates([name]).drop(name)


def identity_of(
    cursor: SourceColumn, key: Sequence[SourceColumn], *, case_sensitive: bool = False
) -> Identity | None:
    """Return the identity of rows with that cursor and primary key; None for an empty key.

    Raise InvalidType for a column whose type cannot identify rows.
    """
    if not key:
        return None
    for column in key:
        _check(column)
    # Sorted, so that the order in which the caller names the columns does not matter.
    others = {column.path: column for column in key if column.path != cursor.path}
    return Identity((cursor, *(others[path] for path in sorted(others))), case_sensitive)


def kind_of(spark_type: DataType) -> str:
    """Return the kind of a type: types that are hashed alike have the same kind."""
    from pyspark.sql import types as t

    match spark_type:
        case t.IntegralType():
            return "integer"
        case t.FloatType() | t.DoubleType():
            return "floating"
        case t.DecimalType():
            return f"decimal({spark_type.scale})"
        case t.StringType() | t.CharType() | t.VarcharType():
            return "string"
        case t.ArrayType():
            return f"array<{kind_of(spark_type.elementType)}>"
        case t.MapType():
            return f"map<{kind_of(spark_type.keyType)},{kind_of(spark_type.valueType)}>"
        case t.StructType():
            fields = (f"{one.name.lower()}:{kind_of(one.dataType)}" for one in spark_type.fields)
            return f"struct<{','.join(fields)}>"
        case _:
            return spark_type.simpleString()


def text_of(sql: str, spark_type: DataType, depth: int = 0) -> str:
    """Return SQL for text that represents the value of `sql` exactly; never null."""
    from pyspark.sql import types as t

    match spark_type:
        case t.NullType():
            return _NULL
        case t.StringType() | t.CharType() | t.VarcharType():
            text = f"concat(length({sql}), ':', collate({sql}, 'UTF8_BINARY'))"
        case t.DecimalType():
            # Unlike a cast, it does not depend on the session's settings.
            text = f"format_number({sql}, {spark_type.scale})"
        case t.FloatType() | t.DoubleType():
            text = f"cast(cast({sql} AS double) + 0.0D AS string)"  # -0.0 is 0.0
        case t.VariantType():
            text = f"concat(schema_of_variant({sql}), to_json({sql}))"
        case t.BinaryType():
            text = f"hex({sql})"
        case t.DateType():
            text = f"cast(unix_date({sql}) AS string)"
        case t.TimestampType():
            text = f"cast(unix_micros({sql}) AS string)"
        case t.ArrayType():
            one = f"e{depth}"
            each = text_of(one, spark_type.elementType, depth + 1)
            text = f"concat('[', array_join(transform({sql}, {one} -> {each}), ';'), ']')"
        case t.MapType():
            one = f"e{depth}"
            key = text_of(f"{one}.key", spark_type.keyType, depth + 1)
            value = text_of(f"{one}.value", spark_type.valueType, depth + 1)
            pairs = f"transform(map_entries({sql}), {one} -> concat({key}, '=', {value}))"
            text = f"concat('{{', array_join(array_sort({pairs}), ';'), '}}')"
        case t.StructType():
            parts = [
                text_of(
                    f"{sql}.{SourceColumn((field.name,), field.dataType).sql}",
                    field.dataType,
                    depth,
                )
                for field in spark_type.fields
            ]
            inside = ", ';', ".join(parts) or "''"
            return f"if({sql} IS NULL, {_NULL}, concat('(', {inside}, ')'))"
        case _:
            text = f"cast({sql} AS string)"
    return f"coalesce({text}, {_NULL})"


def _is_comparable(column: SourceColumn) -> bool:
    return len(column.path) == 1 and "map<" not in column.type.simpleString()


def _check(column: SourceColumn) -> None:
    kind = column.type.simpleString()
    if "collate" in kind:
        raise InvalidType(
            f"the primary key `{column.name}` has the type {kind}: under a collation, different "
            "texts can be equal",
            hint="use a column without a collation, or cast it to string",
        )
    if any(word in kind for word in ("variant", "interval", "geometry", "geography")):
        raise InvalidType(
            f"the primary key `{column.name}` has the type {kind}, which has no canonical text "
            "form",
            hint="use another column, or cast it to string",
        )
