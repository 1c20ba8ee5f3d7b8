"""Strict checks of all routes: unknown names in a query, and bodies that are not JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from fastapi import Request

from holdfast.errors import InvalidInput, WrongContentType
from holdfast.server.http.errors import MEDIA_TYPE


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
