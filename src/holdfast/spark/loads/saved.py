"""The columns that loads have saved, so that they are read with the types that they had.

Files alone do not tell: Spark reads the partition `007` as the number 7, and takes the columns of
one file for those of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

PREFIX: Final = "/columns/"
"""A schema of the loads of the watermark `orders` is stored as `orders/columns/DIGEST`."""
_WIDER: Final = (("byte", "short", "integer", "long"), ("float", "double"))
"""Types of which each can be read as a later one."""


def columns_of(schema: StructType) -> dict[str, Any]:
    """Return the names and types of the columns, as the store keeps them."""
    return {field.name: field.dataType.jsonValue() for field in schema.toNullable().fields}


def schema_of(schemas: Sequence[dict[str, Any]], spark: SparkSession, where: str) -> StructType:
    """Return the schema with which loads that were saved with these can be read together.

    Raise InvalidInput where a column was saved with types that have none in common.
    """
    from pyspark.sql.types import StructType

    case_sensitive = str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true"
    columns: dict[str, tuple[str, list[Any]]] = {}
    for name, kind in (column for schema in schemas for column in schema.items()):
        known = name if case_sensitive else name.lower()
        columns[known] = (name, [*columns.get(known, ("", []))[1], kind])
    fields = [
        {"name": name, "type": _common(name, types, where), "nullable": True, "metadata": {}}
        for name, types in columns.values()
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})


def _common(name: str, types: list[Any], where: str) -> Any:
    """Return the type that has all values of these."""
    from pyspark.sql.types import _parse_datatype_json_value

    distinct = [kind for at, kind in enumerate(types) if kind not in types[:at]]
    if len(distinct) == 1:
        return distinct[0]
    for ranks in _WIDER:
        if all(kind in ranks for kind in distinct):
            return max(distinct, key=ranks.index)
    shown = " and as ".join(_parse_datatype_json_value(kind).simpleString() for kind in distinct)
    raise InvalidInput(
        f"the column `{name}` was saved as {shown}, by loads of {where}",
        hint="read the directories of the loads of each type by themselves",
    )
