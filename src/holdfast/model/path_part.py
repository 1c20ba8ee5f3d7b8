"""Encoding of any text as one component of a path."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final
from urllib.parse import quote, unquote

LONGEST: Final = 200
"""File systems allow 255 bytes; the rest is for suffixes that callers add."""
_DIGEST: Final = 32


def path_part(text: str, limit: int = LONGEST) -> str:
    """Return a unique name for a file or directory: percent-encoded where it is not plain, and with
    a digest in place of its end where it is long."""
    encoded = quote(text, safe="=+@", errors="surrogatepass").replace("~", "%7E")
    # Leading dots hide a file or lead upward; a dot before digits looks like a map index.
    encoded = re.sub(r"^\.+|\.(?=\d+$)", lambda dots: "%2E" * len(dots[0]), encoded)
    if len(encoded) <= limit:
        return encoded
    begin = re.sub(r"%[0-9A-F]?$", "", encoded[: limit - _DIGEST - 1])
    return f"{begin}~{sha256(text.encode(errors='surrogatepass')).hexdigest()[:_DIGEST]}"


def text_of(part: str) -> str | None:
    """Return the text that `path_part` encoded; None where its end was replaced by a digest, or the
    name is no such encoding."""
    text = unquote(part)
    return text if "~" not in part and path_part(text) == part else None
