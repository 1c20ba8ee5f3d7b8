"""Strict reading of requests: names in a query, encodings in a path, and bodies that are JSON.

Ids and keys in a path may contain any character. Paths are matched undecoded, and each part is
decoded once, on its own. So `%2F` is a slash in an id, and never one between two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from urllib.parse import unquote_to_bytes

from fastapi import Request

from holdfast.errors import InvalidInput, WrongContentType
from holdfast.server.http.error_responses import MEDIA_TYPE

_BROKEN = re.compile("%(?![0-9A-Fa-f]{2})")


def check_query(given: Iterable[str], known: Sequence[str]) -> None:
    """Raise InvalidInput for a name in a query that a route does not know."""
    for name in given:
        if name not in known:
            shown = get_close_matches(name, known, n=3) or known
            hint = (
                f"allowed here: {', '.join(shown)}"
                if known
                else "this path takes no query parameters"
            )
            raise InvalidInput(
                f"the query has `{name[:100]}`, which is not a parameter of this path", hint=hint
            )


def check_content_type(request: Request) -> None:
    """Raise WrongContentType for a body that is not JSON. Without a content type, it counts as
    JSON."""
    given = request.headers.get("content-type", MEDIA_TYPE)
    if given.partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise WrongContentType(
            f"the content type of the body is {given[:100]}", hint=f"send it as {MEDIA_TYPE}"
        )


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
