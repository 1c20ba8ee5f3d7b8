"""The schema contract of an asset: the schema of its source, stored with its watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import SourceChanged

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SUFFIX: Final = "/schema"
"""The contract of the watermark `orders` is stored as `orders/schema`."""


def columns_of(schema: StructType) -> dict[str, str]:
    """Return the names and types of the columns, in their stored form."""
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def changes(before: Any, now: dict[str, str]) -> list[str]:
    """Return descriptions of how the columns have changed."""
    if not isinstance(before, dict):
        return []
    return [
        *(f"`{name}` is missing" for name in before if name not in now),
        *(f"`{name}` ({kind}) is new" for name, kind in now.items() if name not in before),
        *(
            f"`{name}` was {before[name]} and is now {kind}"
            for name, kind in now.items()
            if name in before and before[name] != kind
        ),
    ]


def broken(changed: list[str], where: str) -> SourceChanged:
    """Return the error for a source that breaks its contract."""
    return SourceChanged(
        f"the source's schema differs from the one stored as {where}: {'; '.join(changed)}",
        hint='use contract="warn" to accept it with the next load, or delete that entry to accept '
        "it now",
    )
