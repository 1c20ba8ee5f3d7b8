"""The view of an attempt on its own staged writes."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from holdfast.errors import InvalidType
from holdfast.model.entry import Entry, Writer, signature
from holdfast.model.value import larger


def overlaid(
    standing: Entry[str] | None,
    key: str,
    value: str,
    updated_at: datetime,
    writer: Writer,
    *,
    advances: bool,
) -> Entry[str]:
    """Return the entry as it would be if the staged write took effect now.

    Where it could not, finishing the attempt raises; until then its writer reads the staged value.
    """
    if advances:
        with suppress(InvalidType):
            value = larger(standing.value if standing else None, value, key)
    version = standing.version if standing else 0
    return Entry(key, value, version, updated_at, signature(writer), staged=True)
