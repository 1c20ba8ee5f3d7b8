"""The errors of the public API, as described in OpenAPI."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema


class ProblemDetail(BaseModel):
    """The error, for programs and for people."""

    reason: str = Field(
        description="What it is, in one word that does not change; docs/reference/errors.md "
        "lists them as codes.",
        examples=["not_found"],
    )
    message: str = Field(description="What failed, and where.")
    hint: str | SkipJsonSchema[None] = Field(
        default=None, description="What to do next; left out where nothing is known."
    )


class Problem(BaseModel):
    """The one shape of every error."""

    detail: ProblemDetail


_WAIT = {
    "Retry-After": {
        "description": "After how many seconds it is worth asking again.",
        "schema": {"type": "integer"},
    }
}
_MEANINGS: dict[int, dict[str, Any]] = {
    401: {
        "description": "There is no token with the request.",
        "headers": {"WWW-Authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}}},
    },
    403: {"description": "The token is not accepted, or its role does not allow this."},
    404: {"description": "What is named does not exist."},
    408: {"description": "The request did not come in time."},
    409: {"description": "What the store holds stands against it; nothing was written."},
    413: {"description": "The body is over the server's limit."},
    415: {"description": "The body is not `application/json`."},
    422: {"description": "Something in the request may not be so; the message says what."},
    429: {
        "description": "The token is used more often than the server lets one.",
        "headers": _WAIT,
    },
    501: {"description": "The configured backend cannot do this."},
    502: {"description": "The configured backend failed."},
    503: {"description": "The store does not answer at the moment.", "headers": _WAIT},
}
BODY = (408, 413, 415)
"""Statuses for a body that is invalid as such."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return these errors, for a route's description."""
    return {status: {"model": Problem, **_MEANINGS[status]} for status in statuses}
