"""The errors of the public API, as described in OpenAPI."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema


class ProblemDetail(BaseModel):
    """The error, for programs and for people."""

    reason: str = Field(
        description="The error's code, which does not change; docs/reference/errors.md lists "
        "the codes.",
        examples=["not_found"],
    )
    message: str = Field(description="What failed, and where.")
    hint: str | SkipJsonSchema[None] = Field(default=None, description="What to do next, if known.")


class Problem(BaseModel):
    """The format of every error."""

    detail: ProblemDetail


_WAIT = {
    "Retry-After": {
        "description": "The number of seconds after which to send the request again.",
        "schema": {"type": "integer"},
    }
}
_MEANINGS: dict[int, dict[str, Any]] = {
    401: {
        "description": "The request has no token, or one that is not valid.",
        "headers": {"WWW-Authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}}},
    },
    403: {"description": "The token does not allow this."},
    404: {"description": "The named resource does not exist."},
    408: {"description": "The request did not arrive in time."},
    409: {"description": "The request conflicts with the stored state; nothing was written."},
    413: {"description": "The body is over the server's limit."},
    415: {"description": "The body is not `application/json`."},
    422: {"description": "The request is not valid; the message says why."},
    429: {
        "description": "The token exceeds the rate limit, or a limit on requests at once.",
        "headers": _WAIT,
    },
    501: {"description": "The configured backend cannot do this."},
    502: {"description": "The configured backend failed."},
    503: {"description": "The store is unavailable.", "headers": _WAIT},
}
BODY = (408, 413, 415)
"""Statuses for a body that is invalid as such."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return these errors, for a route's description."""
    return {status: {"model": Problem, **_MEANINGS[status]} for status in statuses}
