"""Decoding of paths whose ids and keys may contain any character. They are matched undecoded, and
each part is decoded once, on its own. So `%2F` is a slash in an id, and never one between two."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from holdfast.errors import InvalidInput

_BROKEN = re.compile("%(?![0-9A-Fa-f]{2})")


def decoded(part: str, what: str) -> str:
    """Return a part of a path, decoded. Raise InvalidInput where its encoding is invalid."""
    if "%" not in part:
        return part
    if _BROKEN.search(part):
        raise InvalidInput(
            f"the {what} in the path has an invalid percent-encoding",
            hint="write a percent sign as %25",
        )
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"the {what} in the path is not UTF-8") from None
