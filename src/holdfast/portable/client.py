"""Commands to a server in JSON, and the errors in its responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from holdfast.errors import (
    KINDS,
    Forbidden,
    HoldfastError,
    InvalidUrl,
    NoToken,
    RequestTooLarge,
    StoreUnavailable,
    TooManyRequests,
)
from holdfast.portable.transport import Response, Transport, Unreachable

COMMANDS = "/execution/commands"
HEADERS = {"Content-Type": "application/json"}
HINT = "check the URL, and that `holdfast server` is running there"


def ask(
    transport: Transport,
    command: str,
    fields: Mapping[str, Any],
    *,
    once: bool = False,
    who: str = "",
    hint: str = HINT,
) -> Any:
    """Send the command of that name, with its fields, and return the result.

    `once` is for commands that write: the server then executes them once, however often they are
    sent. Raises the error that the server responds with, and StoreUnavailable, with the hint and
    the name of the caller `who`, if the server is unreachable.
    """
    body = json.dumps({"command": command, **fields}, ensure_ascii=False).encode()
    try:
        response = transport.request("POST", COMMANDS, body, HEADERS, once=once)
    except Unreachable as error:
        raise StoreUnavailable(f"{who}: {error}" if who else str(error), hint=hint) from error
    if response.status != HTTPStatus.OK:
        raise refusal(transport.url, response)
    try:
        return json.loads(response.body)
    except ValueError:
        raise foreign_response(transport.url, response) from None


def refusal(url: str, response: Response) -> HoldfastError:
    """Return the error that a response reports."""
    try:
        detail = json.loads(response.body)["detail"]
        kind = KINDS.get(detail["reason"], HoldfastError)
        message, hint = detail["message"], detail.get("hint", "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return foreign_response(url, response)
    return kind(str(message), hint=str(hint))


def foreign_response(url: str, response: Response) -> HoldfastError:
    """Return the error for a response not from our server: from a proxy, or another service."""
    status, headers, _ = response
    facts = (headers.get(name) for name in ("content-type", "server"))
    shown = ", ".join(filter(None, (f"{status} {_phrase(status)}".strip(), *facts)))
    hint = "check the URL, and the proxy in front of the server if there is one"
    if location := headers.get("location"):
        hint = f"it redirects to {location}: use the URL of the server itself"
    kinds = {kind.status: kind for kind in (NoToken, Forbidden, RequestTooLarge, TooManyRequests)}
    kind: type[HoldfastError] = kinds.get(status, InvalidUrl)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        kind = StoreUnavailable
    return kind(f"{url} did not respond like a Holdfast server ({shown})", hint=hint)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
