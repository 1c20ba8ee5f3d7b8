"""Statistics of data files in Delta's form, computed from Parquet footers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.portable.lake.footers import metadata_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

LONGEST: Final = 32
"""Number of characters of a text in statistics, as of Delta's other writers."""
_PRECISE: Final = 15
"""Number of digits that every reader of JSON keeps."""
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def statistics(footer: bytes, schema: StructType, most: int) -> str:
    """Return the number of rows of a file and, for up to `most` columns, the number of nulls and
    the lowest and highest values.

    There are bounds of all these columns or of none: where some are missing, deltalake finds no row
    by a filter on such a column.
    """
    metadata = metadata_of(footer)
    if any("." in field.name for field in _fields(schema)):
        # A footer separates the parts of a path by dots.
        return _ENCODER.encode({"numRecords": metadata.num_rows}).decode()
    columns = list(_leaves(schema, ()))
    wanted = dict(columns if most < 0 else columns[:most])
    has_nan_free_bounds = metadata.created_by.startswith("parquet-mr")
    is_complete = True
    nulls: dict[str, Any] = {}
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    for index in range(metadata.num_columns):
        path = tuple(metadata.schema.column(index).path.split("."))
        kind = wanted.get(path)
        groups = [metadata.row_group(n).column(index) for n in range(metadata.num_row_groups)]
        if kind is None or metadata.schema.column(index).max_repetition_level:
            continue
        found = [group.statistics for group in groups]
        if any(one is None or not one.has_null_count for one in found):
            is_complete = False
            continue
        _put(nulls, path, sum(one.null_count for one in found))
        known = [one for one in found if one.has_min_max]
        if not any(one.num_values for one in found):
            continue  # all values are null
        low = high = None
        if len(known) == sum(one.num_values > 0 for one in found) and (
            has_nan_free_bounds or kind not in ("float", "double")
        ):
            with suppress(ValueError, OverflowError, TypeError):  # no date of the years 1 to 9999
                low = _shown(min(one.min for one in known), kind, is_highest=False)
                high = _shown(max(one.max for one in known), kind, is_highest=True)
        if low is None or high is None:
            is_complete = False
            continue
        _put(lowest, path, low)
        _put(highest, path, high)
    bounds = {"minValues": lowest, "maxValues": highest} if is_complete else {}
    stats = {"numRecords": metadata.num_rows, **bounds, "nullCount": nulls}
    return _ENCODER.encode(stats).decode()


def _leaves(schema: StructType, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the paths and types of the columns that have statistics."""
    from pyspark.sql.types import StructType

    for field in schema:
        path = (*above, field.name)
        if isinstance(field.dataType, StructType):
            yield from _leaves(field.dataType, path)
        else:
            yield path, field.dataType.typeName()


def _fields(schema: StructType) -> Iterator[StructField]:
    """Yield the columns, and the fields of structs."""
    from pyspark.sql.types import StructType

    for field in schema:
        yield field
        if isinstance(field.dataType, StructType):
            yield from _fields(field.dataType)


def _put(into: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        into = into.setdefault(part, {})
    into[path[-1]] = value


def _shown(value: Any, kind: str, *, is_highest: bool) -> Any:
    """Return a bound in Delta's form; None if readers could not rely on it."""
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind in ("float", "double") and isinstance(value, float) and isfinite(value):
        return value
    if kind in ("byte", "short", "integer", "long") and isinstance(value, int):
        return value
    if kind == "decimal" and isinstance(value, Decimal) and len(value.as_tuple().digits) < _PRECISE:
        return value
    if kind == "date" and isinstance(value, date):
        return value.isoformat()
    if kind == "timestamp" and isinstance(value, datetime):
        return value.astimezone(UTC).isoformat("T", "microseconds").replace("+00:00", "Z")
    if kind == "timestamp_ntz" and isinstance(value, datetime):
        return value.isoformat("T", "microseconds")
    if kind == "string" and isinstance(value, str | bytes):
        text = value if isinstance(value, str) else value.decode()
        if len(text) <= LONGEST:
            return text
        if is_highest and text[LONGEST] == "\U0010ffff":
            return None  # no character is higher
        return text[:LONGEST] + ("\U0010ffff" if is_highest else "")
    return None
