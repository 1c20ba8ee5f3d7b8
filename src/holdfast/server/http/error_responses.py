"""Errors as responses: one format, on every route.

`{"detail": {"reason": …, "message": …, "hint": …}}`, with the status of the error. Where a retry
may help, `Retry-After` says after how many seconds, and `Retry-After-Ms` after how many
milliseconds.
"""

from __future__ import annotations

import logging
import math
import re
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from holdfast.errors import (
    BackendFailed,
    HoldfastError,
    NoToken,
    SchemaMismatch,
    StoreFailed,
    StoreUnavailable,
    TooManyRequests,
)
from holdfast.stores.sql.retries import Unanswered
from holdfast.wire.codec import Refusal

MEDIA_TYPE = "application/json"
REQUEST_ID = "holdfast.request_id"
"""The key of a request's scope that holds its id in the log."""
PAUSE = 1.0
"""Seconds until a retry, where nothing more is known."""
MOST_DETAILS = 5
"""How many mistakes of one request are reported."""

log = logging.getLogger("holdfast.server")

_REASONS = {404: "not_found", 405: "method_not_allowed"}


class TooOften(TooManyRequests):
    """Too many requests, with the seconds to wait before the next one."""

    def __init__(self, message: str, *, hint: str = "", wait: float = PAUSE) -> None:
        super().__init__(message, hint=hint)
        self.wait = wait


def respond(scope: Scope, error: Exception) -> Response:
    """Return the response for an error of ours, or for one that FastAPI raises."""
    if isinstance(error.__cause__, HoldfastError):
        error = error.__cause__
    if isinstance(error, HoldfastError):
        error = _discreet(error)
        return _response(error.status, error.code, error.message, error.hint, _headers(error))
    if isinstance(error, RequestValidationError):
        message = "; ".join(_validation_message(one) for one in error.errors()[:MOST_DETAILS])
        return _response(422, "invalid", message, "see /openapi.json for the expected format")
    assert isinstance(error, HTTPException)
    status, path = error.status_code, scope["path"]
    message, hint = str(error.detail), ""
    if status == 404:
        message, hint = f"there is nothing at {path}", "see /openapi.json for the paths"
    elif status == 405:
        message = f"{scope['method']} is not allowed at {path}"
        hint = "see the header Allow for the allowed methods"
    headers = dict(error.headers or {})
    if status == 405:
        headers["Allow"] = ", ".join(_allowed(scope))
    return _response(status, _REASONS.get(status, "bad_request"), message, hint, headers)


def unexpected(scope: Scope, error: Exception) -> Response:
    """Log an unexpected error and return a response that refers to the log."""
    path = scope["raw_path"].decode("ascii")  # decoded, it may contain a line break
    log.error("request %s: %s %s", scope[REQUEST_ID], scope["method"], path, exc_info=error)
    return _response(
        500,
        HoldfastError.code,
        f"unexpected error; see the server's log for request {scope[REQUEST_ID]}",
        "this is a bug; report it with that part of the log",
    )


def install(app: FastAPI) -> None:
    """Report every error of the app's routes, and of FastAPI itself, in this format."""
    for kind in (HoldfastError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _handle)
    app.add_exception_handler(Exception, _handle_unexpected)


async def _handle(request: Request, error: Exception) -> Response:
    return respond(request.scope, error)


async def _handle_unexpected(request: Request, error: Exception) -> Response:
    return unexpected(request.scope, error)


def body(reason: str, message: str, hint: str = "") -> bytes:
    """Return the body of an error response."""
    return msgspec.json.encode({"detail": _Detail(reason, message, hint)})


class _Detail(Refusal, frozen=True, omit_defaults=True):
    """The detail of an error. The hint is omitted where there is none."""


def _headers(error: HoldfastError) -> dict[str, str]:
    if isinstance(error, NoToken):
        return {"www-authenticate": "Bearer"}
    if isinstance(error, TooOften):
        return _waiting(error.wait)
    if isinstance(error, StoreUnavailable):
        return _waiting(PAUSE)
    # The following bytes on the connection belong to a request that was not read to its end.
    return {"connection": "close"} if error.status in (400, 408, 413, 431) else {}


def _allowed(scope: Scope) -> list[str]:
    """Return the methods of all routes at the path: each route knows only its own."""
    routes = [route for route in scope["app"].routes if route.matches(scope)[0] != Match.NONE]
    return sorted({method for route in routes for method in route.methods})


def _discreet(error: HoldfastError) -> HoldfastError:
    """Return the error without details that are only for the server's operator: the database and
    its message, and the error of a custom backend, which may contain a password. Log them."""
    if isinstance(error, BackendFailed) and (cause := str(error.__cause__ or "")):
        log.error("%s", error.message, exc_info=error.__cause__)
        return type(error)(error.message.removesuffix(f": {cause}"), hint="see the server's log")
    if isinstance(error, Unanswered):
        log.warning("%s", error.message)
    if type(error) not in (StoreUnavailable, StoreFailed, SchemaMismatch):
        return error
    log.warning("%s", error.message)
    return type(error)(
        "the server cannot use its database",
        hint="wait a moment, and send the request again; see the server's log",
    )


def _waiting(seconds: float) -> dict[str, str]:
    return {
        "retry-after": str(max(1, math.ceil(seconds))),
        "retry-after-ms": str(max(1, math.ceil(seconds * 1000))),
    }


# Among alternative types, Pydantic adds the one that it tried to the place of an error.
_TRIED_TYPE = re.compile(r"function-|constrained-|\w+\[|(str|int|none)$")


def _validation_message(error: Any) -> str:
    parts = [str(part) for part in error["loc"]]
    where = ".".join(part for part in parts if not _TRIED_TYPE.match(part))
    return f"{where}: {error['msg']}"


def _response(
    status: int, reason: str, message: str, hint: str = "", headers: dict[str, str] | None = None
) -> Response:
    return Response(body(reason, message, hint), status, headers, MEDIA_TYPE)
