"""Comparison of rows with the columns of a lake table, before Spark starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.errors import InvalidInput
from holdfast.spark.loads.column_lookup import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

_INTEGERS: Final = ("byte", "short", "integer", "long")
_ATOMIC: Final = frozenset(
    {*_INTEGERS, "float", "double", "string", "binary", "boolean", "date"}
    | {"timestamp", "timestamp_ntz"}
)


class Fit(NamedTuple):
    """How rows become rows of a table."""

    matched: dict[str, str]
    """The column of the rows for each column of the table."""
    added: tuple[StructField, ...]
    """The columns that the table does not have yet."""


def fit_of(rows: StructType, table: StructType, name: str, *, evolves: bool) -> Fit:
    """Return how rows of a schema become rows of a table. Raise InvalidInput if they do not fit.

    Columns are matched by name, ignoring case where that is unambiguous. A value may become one of
    a wider type of the same kind. With `evolves`, the table gets new columns.
    """
    matched = dict(_matched(rows, table))
    missing = [field for field in table if field.name not in matched]
    extra = [field for field in rows if field.name not in matched.values()]
    problems = [
        f"{_shown(field)} of the table is missing{_renamed(field, extra)}" for field in missing
    ]
    if not evolves:
        problems += [f"{_shown(field)} is not in the table" for field in extra]
    problems += [f"{problem}" for field in extra if evolves for problem in _unstorable(field)]
    for target in table:
        if target.name in matched:
            source = rows[matched[target.name]].dataType
            problems += _misfits(source, target.dataType, target.name)
    if problems:
        raise InvalidInput(
            f"the rows do not fit {name}: {'; '.join(problems)}; nothing was written",
            hint=_hint(bool(missing), bool(extra) and not evolves),
        )
    return Fit(matched, tuple(extra) if evolves else ())


def check_creatable(rows: StructType, name: str) -> None:
    """Raise InvalidInput unless a table can be created for rows of a schema."""
    problems = [problem for field in rows for problem in _unstorable(field)]
    lower = [field.name.lower() for field in rows]
    problems += [
        f"`{one}` occurs twice" for one in sorted({x for x in lower if lower.count(x) > 1})
    ]
    if not lower:
        problems.append("they have no columns")
    if problems:
        raise InvalidInput(
            f"{name} cannot be created for these rows: {'; '.join(problems)}",
            hint="cast or rename such columns before the append",
        )


def nullable(schema: StructType) -> StructType:
    """Return a schema whose columns, and everything in them, may be null, without metadata."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    def of(kind: DataType) -> DataType:
        if isinstance(kind, StructType):
            return StructType([StructField(field.name, of(field.dataType)) for field in kind])
        if isinstance(kind, ArrayType):
            return ArrayType(of(kind.elementType))
        if isinstance(kind, MapType):
            return MapType(of(kind.keyType), of(kind.valueType))
        return kind

    found = of(schema)
    assert isinstance(found, StructType)
    return found


def fitted(df: DataFrame, fit: Fit, table: StructType) -> DataFrame:
    """Return the rows with exactly the columns of the table. Spark raises an error for a null in a
    column that has none, which `null_in` recognizes."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructField, StructType

    def column(field: StructField) -> Column:
        value = df[quoted(fit.matched[field.name])]
        if not field.nullable and df.schema[fit.matched[field.name]].nullable:
            failing = f.raise_error(f.lit(null_in(field.name)))
            value = f.when(value.isNull(), failing).otherwise(value)
        return value.alias(field.name)

    columns = [
        StructField(field.name, field.dataType, nullable=True, metadata=field.metadata)
        for field in table
    ]
    return df.select(*map(column, table)).to(StructType(columns))


def null_in(column: str) -> str:
    """Return the message of Spark's error for a null in a column of the table that has none."""
    return f"`{column}` is null in a row, and the table allows no null there"


def _matched(rows: StructType, table: StructType) -> Iterator[tuple[str, str]]:
    lower = [name.lower() for name in rows.names]
    for name in table.names:
        if name in rows.names:
            yield name, name
        elif lower.count(name.lower()) == 1:
            yield name, rows.names[lower.index(name.lower())]


def _misfits(source: DataType, target: DataType, where: str) -> Iterator[str]:
    """Yield descriptions of where values of a type do not fit another one."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(source, StructType) and isinstance(target, StructType):
        if source.names != target.names:
            yield (
                f"`{where}` has the fields {', '.join(source.names)}, and in the table "
                f"{', '.join(target.names)}"
            )
            return
        for one, other in zip(source, target, strict=True):
            inside = f"{where}.{one.name}"
            yield from _misfits(one.dataType, other.dataType, inside)
            if one.nullable and not other.nullable:
                yield f"`{inside}` may be null, and not in the table"
    elif isinstance(source, ArrayType) and isinstance(target, ArrayType):
        yield from _misfits(source.elementType, target.elementType, f"{where}[]")
        if source.containsNull and not target.containsNull:
            yield f"`{where}[]` may be null, and not in the table"
    elif isinstance(source, MapType) and isinstance(target, MapType):
        yield from _misfits(source.keyType, target.keyType, f"{where}.key")
        yield from _misfits(source.valueType, target.valueType, f"{where}.value")
        if source.valueContainsNull and not target.valueContainsNull:
            yield f"`{where}.value` may be null, and not in the table"
    elif not _widens(source, target):
        yield f"`{where}` is {source.simpleString()}, and {target.simpleString()} in the table"


def _widens(source: DataType, target: DataType) -> bool:
    """Return whether every value of an atomic type is one of another."""
    from pyspark.sql.types import DecimalType

    one, other = source.typeName(), target.typeName()
    if isinstance(source, DecimalType) and isinstance(target, DecimalType):
        whole = target.precision - target.scale - (source.precision - source.scale)
        return whole >= 0 and target.scale >= source.scale
    if one in _INTEGERS and other in _INTEGERS:
        return _INTEGERS.index(one) <= _INTEGERS.index(other)
    return source == target or (one, other) == ("float", "double")


def _unstorable(field: StructField) -> Iterator[str]:
    if not field.name.strip() or set(field.name) & set(" ,;{}()\n\t="):
        yield f"the name `{field.name}` has a character that tables do not allow"
    yield from _unknown(field.dataType, field.name)


def _unknown(kind: DataType, where: str) -> Iterator[str]:
    """Yield the parts of a type that tables do not have."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    if isinstance(kind, StructType):
        for field in kind:
            yield from _unknown(field.dataType, f"{where}.{field.name}")
    elif isinstance(kind, ArrayType):
        yield from _unknown(kind.elementType, f"{where}[]")
    elif isinstance(kind, MapType):
        yield from _unknown(kind.keyType, f"{where}.key")
        yield from _unknown(kind.valueType, f"{where}.value")
    elif not isinstance(kind, DecimalType) and kind.jsonValue() not in _ATOMIC:
        yield f"`{where}` is {kind.simpleString()}, which tables do not store"


def _renamed(missing: StructField, extra: list[StructField]) -> str:
    alike = [field.name for field in extra if field.dataType == missing.dataType]
    return f" (renamed to `{alike[0]}`?)" if len(alike) == 1 else ""


def _hint(missing: bool, extra: bool) -> str:
    if missing:
        return 'rename the column, or add it: df.withColumn("…", lit(None).cast("…"))'
    if extra:
        return "remove the column, or give evolve=True to add it to the table"
    return (
        'convert the column: df.withColumn("…", col("…").cast("…")); times without a zone need one'
    )


def _shown(field: StructField) -> str:
    return f"`{field.name}` ({field.dataType.simpleString()})"
