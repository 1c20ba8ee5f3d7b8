"""Any text as one part of a path."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final
from urllib.parse import quote

LONGEST: Final = 200
"""File systems take 255 bytes; those who add something need some of them."""
_DIGEST: Final = 32


def path_part(text: str, limit: int = LONGEST) -> str:
    """Return a name for a file or directory that no other text has: percent-encoded where it is
    not plain, and with a digest in place of its end where it is long."""
    encoded = quote(text, safe="=+@", errors="surrogatepass").replace("~", "%7E")
    # Dots in front hide a file or lead upward; one before digits looks like a map index.
    encoded = re.sub(r"^\.+|\.(?=\d+$)", lambda dots: "%2E" * len(dots[0]), encoded)
    if len(encoded) <= limit:
        return encoded
    begin = re.sub(r"%[0-9A-F]?$", "", encoded[: limit - _DIGEST - 1])
    return f"{begin}~{sha256(text.encode(errors='surrogatepass')).hexdigest()[:_DIGEST]}"
