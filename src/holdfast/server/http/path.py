"""Paths whose ids and keys hold any character: they are matched as they were sent, and each part is
decoded once, by itself. So `%2F` is a slash inside an id, and never one between two."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from holdfast.errors import InvalidInput

_BROKEN = re.compile("%(?![0-9A-Fa-f]{2})")


def decoded(part: str, what: str) -> str:
    """A part of a path as it was meant; InvalidInput where it means nothing."""
    if "%" not in part:
        return part
    if _BROKEN.search(part):
        raise InvalidInput(
            f"the {what} in the path has a `%` that encodes nothing",
            hint="a percent sign itself is written %25",
        )
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"the {what} in the path is not UTF-8") from None
