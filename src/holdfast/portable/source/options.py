"""The options of the data source."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from holdfast.errors import InvalidInput

WRITING: Final = ("table", "url", "token")
READING: Final = (*WRITING, "where", "columns", "partitions")


def check_options(given: Iterable[str], known: Collection[str], doing: str) -> None:
    """Raise InvalidInput unless all the options are known. Spark adds options of its own only for a
    table in its catalog."""
    unknown = sorted(set(given) - set(known))
    if "provider" in unknown:
        raise InvalidInput(
            "Spark's catalog cannot hold a Holdfast table, because it loses the options",
            hint="CREATE TEMPORARY VIEW runs USING holdfast OPTIONS (table 'runs')",
        )
    if unknown:
        named = ", ".join(f"`{name}`" for name in unknown)
        raise InvalidInput(
            f"there is no option {named} for {doing}",
            hint=f"known options: {', '.join(known)}",
        )
