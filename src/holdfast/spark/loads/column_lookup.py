"""Lookup of a DataFrame's columns by name, under Spark's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import InvalidInput, InvalidType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


class SourceColumn(NamedTuple):
    """A column, or a field inside a struct column."""

    path: tuple[str, ...]
    """Names as the schema spells them, from the column inwards."""
    type: DataType

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def sql(self) -> str:
        """The column reference in SQL, quoted."""
        return ".".join(quoted(part) for part in self.path)

    @property
    def column(self) -> Column:
        from pyspark.sql import functions

        return functions.col(self.sql)


class Columns:
    """The columns of a DataFrame, under the case rule of its session."""

    def __init__(self, schema: StructType, *, case_sensitive: bool = False) -> None:
        self._schema = schema
        self.case_sensitive = case_sensitive

    @classmethod
    def of(cls, df: DataFrame) -> Columns:
        said = df.sparkSession.conf.get("spark.sql.caseSensitive")
        return cls(df.schema, case_sensitive=str(said).lower() == "true")

    def find(self, name: Any, what: str) -> SourceColumn:
        """Return the one column of that name; a dot leads into a struct.

        Raise InvalidType unless the name is text, InvalidInput unless exactly one column has it.
        """
        if not isinstance(name, str):
            raise InvalidType(f"{what} must be the name of a column, not {name!r}")
        found = self._matches(self._schema, name)
        if not found and "." in name:
            found = self._nested(self._schema, name.split("."))
        if len(found) != 1:
            many = "several columns" if found else "no column"
            raise InvalidInput(
                f"{what} is `{name}`, but the DataFrame has {many} of that name",
                hint=f"its columns: {', '.join(self._schema.names)}",
            )
        return found[0]

    def same(self, one: str, other: str) -> bool:
        """Return whether two names mean the same column."""
        return one == other if self.case_sensitive else one.lower() == other.lower()

    def _matches(self, schema: StructType, name: str) -> list[SourceColumn]:
        return [
            SourceColumn((field.name,), field.dataType)
            for field in schema.fields
            if self.same(field.name, name)
        ]

    def _nested(self, schema: StructType, parts: list[str]) -> list[SourceColumn]:
        from pyspark.sql.types import StructType

        found = []
        for outer in self._matches(schema, parts[0]):
            if len(parts) == 1:
                found.append(outer)
            elif isinstance(outer.type, StructType):
                found += [
                    SourceColumn(outer.path + inner.path, inner.type)
                    for inner in self._nested(outer.type, parts[1:])
                ]
        return found


def quoted(name: str) -> str:
    """Return the name quoted for SQL."""
    return "`" + name.replace("`", "``") + "`"
