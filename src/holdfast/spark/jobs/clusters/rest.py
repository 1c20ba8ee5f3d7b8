"""JSON over HTTP to Spark's services."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from holdfast.errors import InvalidInput, SparkUnavailable

TIMEOUT: Final = 10.0
_JSON: Final = {"Content-Type": "application/json;charset=UTF-8"}


class Refused(InvalidInput):
    """The service understood the request, and refused it."""

    code = "spark_refused"

    def __init__(self, message: str, *, hint: str = "", body: bytes = b"") -> None:
        super().__init__(message, hint=hint)
        self.body = body


def checked_url(what: str, url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"{what} is {url!r}", hint="write http://host:port or https://host")
    return url.rstrip("/")


def ask(url: str, body: Any = None) -> bytes:
    """Return the response body of a GET request, or with a body of a POST request. Raise Refused
    for an error status, and SparkUnavailable if the service does not respond."""
    data = None if body is None else msgspec.json.encode(body)
    request = urllib.request.Request(url, data, _JSON)  # noqa: S310  (checked)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            message = f"{url} answered {error.code} {error.reason}"
            raise Refused(message, body=error.read()) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise SparkUnavailable(
            f"{url} does not answer: {reason}", hint="check that the service is running"
        ) from error


def decoded(url: str, answer: bytes) -> dict[str, Any]:
    """Return the JSON object in a response; raise InvalidInput if it is not one."""
    try:
        return msgspec.json.decode(answer, type=dict[str, Any])
    except msgspec.DecodeError:
        raise InvalidInput(
            f"{url} returned a response that is not JSON: {answer[:60]!r}", hint="check the URL"
        ) from None
