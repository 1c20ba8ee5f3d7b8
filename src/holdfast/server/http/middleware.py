"""ASGI middleware for every request: authentication, limits, errors, metrics and the access log."""

from __future__ import annotations

import time
from itertools import count
from secrets import token_hex

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.errors import HoldfastError, NoToken, TokenRefused
from holdfast.server import metrics
from holdfast.server.http import error_responses
from holdfast.server.http.access_log import log_request
from holdfast.server.http.error_responses import REQUEST_ID
from holdfast.server.http.lean_routes import BODY, PREFIX, LeanRoutes
from holdfast.server.http.limits import (
    MOST_BODY_BYTES,
    MOST_UNDER_WAY,
    REFUSAL,
    Bodies,
    ClientGone,
    LimitWarning,
    RateLimit,
    overloaded,
    read_body,
)
from holdfast.server.http.request import GOOD, VERIFIED
from holdfast.server.tokens import Tokens, Verified
from holdfast.settings import Api

GUARDED = (PREFIX, "/api/")
"""Paths that require a token. Only they accept a body."""
LIVE = "/health/live"
"""The path that is answered under any load."""
COUNTED = "holdfast.counted"
"""The key of a request's scope that holds whether it is counted as in progress."""
CLIENT_GONE = 499


class RequestMiddleware:
    """Middleware that verifies the token of each request, reads its body within the limits, passes
    it on, and makes sure that it is answered, counted and logged."""

    def __init__(self, app: ASGIApp, lean: LeanRoutes, tokens: Tokens, api: Api) -> None:
        self._app = app
        self._lean = lean
        self._tokens = tokens
        self._max_body = api.max_body_bytes
        self._bodies = Bodies(max(MOST_BODY_BYTES, api.max_body_bytes))
        self._rate_limit = RateLimit(api.rate_limit)
        self._logs_requests = api.access_log
        self._under_way = 0
        self._warning = LimitWarning(
            f"{MOST_UNDER_WAY:,} requests are in progress: more are refused"
        )
        self._name = token_hex(4)
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        request_id = scope[REQUEST_ID] = f"{self._name}-{next(self._numbers)}"
        code = 0
        size = 0

        async def answer(message: Message) -> None:
            nonlocal code, size
            if message["type"] == "http.response.start":
                self._leave(scope)  # whether the client reads the response does not matter here
                code = message["status"]
                headers = message["headers"]
                headers.append((b"x-request-id", request_id.encode()))
                if (renewed := self._renewed(scope)) is not None:
                    headers.append((b"refreshed-api-token", renewed.encode()))
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._let_in(scope, receive, answer)
        except (HoldfastError, HTTPException) as error:
            await error_responses.respond(scope, error)(scope, receive, answer)
        except ClientGone:
            code = CLIENT_GONE
        except Exception as error:
            if not code:  # else FastAPI has reported it already
                await error_responses.unexpected(scope, error)(scope, receive, answer)
        finally:
            self._leave(scope)
            seconds = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", "none")
            metrics.count_request(scope["method"], route, code, seconds)
            if self._logs_requests:
                log_request(scope, code, seconds, size)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        if REFUSAL in scope:
            raise scope[REFUSAL]
        path = scope["path"]
        max_body = 0
        if path.startswith(GUARDED):
            max_body = self._max_body
            verified = scope[VERIFIED] = self._verified(scope)
            self._rate_limit.count(verified.identity)
        scope[BODY] = await read_body(scope, receive, max_body, self._bodies)
        if path != LIVE:
            self._enter(scope)
        if path.startswith(PREFIX):
            response = await self._lean.answer(scope, receive)
            await response(scope, receive, send)
            return

        body = scope[BODY]

        async def give() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, give, send)

    def _enter(self, scope: Scope) -> None:
        """Count a request that has been received completely. Raise Overloaded if there are too
        many."""
        if self._under_way >= MOST_UNDER_WAY:
            self._warning.log()
            raise overloaded()
        self._under_way += 1
        metrics.under_way.inc()
        scope[COUNTED] = True

    def _leave(self, scope: Scope) -> None:
        scope.pop(BODY, None)
        self._bodies.release(scope)
        if scope.pop(COUNTED, False):
            self._under_way -= 1
            metrics.under_way.dec()

    def _verified(self, scope: Scope) -> Verified:
        for name, value in scope["headers"]:
            if name == b"authorization":
                scheme, _, text = value.strip().partition(b" ")
                if scheme.lower() != b"bearer" or not text:
                    break
                try:
                    return self._tokens.verify(text.strip().decode("ascii", "replace"))
                except TokenRefused as error:
                    metrics.refused_tokens.inc()
                    if scope["path"].startswith(PREFIX):
                        raise  # 403, as Airflow's workers expect it
                    raise NoToken(error.message, hint=error.hint) from None
        raise NoToken(
            "the request has no token",
            hint="send it as `Authorization: Bearer …`; `holdfast auth` prints tokens",
        )

    def _renewed(self, scope: Scope) -> str | None:
        if not scope.get(GOOD):
            return None
        verified: Verified = scope[VERIFIED]
        return self._tokens.renewed(verified)
