"""Values of partition columns: as text in a table's metadata, and in the names of directories.

A name consists of characters that neither a URL nor Spark escapes: others are written as `~` and
the two hexadecimal digits of each byte of their UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any

from holdfast.errors import InvalidInput

NULL = "~null"
EMPTY = "~empty"
LONGEST = 180
"""Number of characters of a name, below the 255 bytes that file systems allow."""
_ESCAPED = re.compile(r"[^A-Za-z0-9_.-]")
_BYTE = re.compile("~([0-9A-F]{2})")


def partition_text(value: Any) -> str | None:
    """Return the text of a partition column's value, as Delta writes it; None for null.

    Times with a zone are in UTC and end in `Z`; those without have a space and no `Z`. Raise
    InvalidInput for a value of another type.
    """
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case datetime(tzinfo=None):
            return value.isoformat(" ", "microseconds")
        case datetime():
            return value.astimezone(UTC).replace(tzinfo=None).isoformat("T", "microseconds") + "Z"
        case date():
            return value.isoformat()
    raise InvalidInput(
        f"{value!r} cannot be the value of a partition column",
        hint="partition by columns of text, numbers, dates, times or booleans",
    )


def directory(texts: Sequence[str | None]) -> str:
    """Return the name of a directory for these values: different for different values, and for
    long values, whose digest is in it, with near certainty."""
    name = ",".join(_escaped(text) for text in texts)
    if name[:1] in ("_", "."):  # Spark's readers would not see it
        name = f"~{ord(name[0]):02X}{name[1:]}"
    if len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST - 66].rstrip('~')}~~{sha256(name.encode()).hexdigest()}"


def values_in(name: str) -> list[str | None]:
    """Return the texts of which `directory` made a name. Raise InvalidInput if it was too long, and
    does not have them all."""
    if "~~" in name:
        raise InvalidInput(
            f"the directory {name} does not contain the whole values of its partition",
            hint="write it on executors, which report the values",
        )
    return [_unescaped(part) for part in name.split(",")]


def _escaped(text: str | None) -> str:
    if text is None:
        return NULL
    if not text:
        return EMPTY
    return _ESCAPED.sub(lambda found: "".join(f"~{byte:02X}" for byte in found[0].encode()), text)


def _unescaped(part: str) -> str | None:
    if part == NULL:
        return None
    if part == EMPTY:
        return ""
    content = _BYTE.sub(lambda found: chr(int(found[1], 16)), part)
    return content.encode("latin-1").decode()
