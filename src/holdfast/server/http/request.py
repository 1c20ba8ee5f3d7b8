"""Helpers for routes: the caller's identity, and the execution of its commands."""

from __future__ import annotations

import time
from typing import Any, TypeVar, cast

from fastapi import Request

from holdfast.access.permissions import authorized
from holdfast.commands import Command, FinishAttempt, Heartbeat, Once, RequestId
from holdfast.errors import HoldfastError, NotFound, NoToken, VersionConflict
from holdfast.monitoring import tracing
from holdfast.server import metrics
from holdfast.server.tokens import Bearer, Tokens, Verified
from holdfast.settings import Settings
from holdfast.store import Store

A = TypeVar("A")

VERIFIED = "holdfast.verified"
"""The key of a request's scope that holds its verified token."""
GOOD = "holdfast.good"
"""The key that holds whether the store has just confirmed that the token is still good."""
COMMANDS = "holdfast.commands"
"""The key that holds the names of the commands that were executed for the request."""


def identity_of(request: Request) -> Bearer:
    """Return the caller's identity, which the middleware has verified for every path under
    /execution and /api. Raise NoToken where there is none."""
    verified: Verified | None = request.scope.get(VERIFIED)
    if verified is None:
        raise NoToken("the request has no token")
    return verified.identity


def settings_of(request: Request) -> Settings:
    return cast(Settings, request.app.state.settings)


def store_of(request: Request) -> Store:
    """Return the store itself, which checks no permissions; routes use `perform`."""
    return cast(Store, request.app.state.store)


def tokens_of(request: Request) -> Tokens:
    return cast(Tokens, request.app.state.tokens)


async def perform(request: Request, command: Command[A], once: RequestId | None = None) -> A:
    """Execute the command for the caller. Raise Forbidden where the caller may not send it."""
    inner: Command[Any] = authorized(identity_of(request), command)
    if once is not None:
        inner = Once(once, inner)
    answer = await execute_counted(request, inner, type(command).__name__)
    if isinstance(command, FinishAttempt) or (isinstance(command, Heartbeat) and answer.attempts):
        request.scope[GOOD] = False
    return cast(A, answer)


async def execute_counted(request: Request, command: Command[Any], name: str) -> Any:
    """Execute, count and log a command that the caller may send."""
    request.scope.setdefault(COMMANDS, []).append(name)
    began = time.perf_counter()
    try:
        parent = request.headers.get(tracing.HEADER, "") if tracing.is_on() else ""
        with tracing.span(f"store {name}", parent):
            answer = await store_of(request).aexecute(command)
    except HoldfastError as error:
        metrics.count_command(name, error.code, time.perf_counter() - began)
        # NotFound and VersionConflict come from a look-up for a bearer with permission.
        request.scope[GOOD] = isinstance(error, NotFound | VersionConflict)
        raise
    metrics.count_command(name, "ok", time.perf_counter() - began)
    request.scope[GOOD] = True
    return answer
