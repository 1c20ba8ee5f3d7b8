"""What an attempt sees of its own staged writes."""

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

    Where it could not, its success will say so; until then its writer reads what it staged.
    """
    if advances:
        with suppress(InvalidType):
            value = larger(standing.value if standing else None, value, key)
    version = standing.version if standing else 0
    return Entry(key, value, version, updated_at, signature(writer), staged=True)
