"""A request as the routes see it: who asks, and how their commands are carried out."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from fastapi import Request

from holdfast.access.permissions import authorized
from holdfast.commands import Command, FinishAttempt, Heartbeat, Once, RequestId
from holdfast.errors import HoldfastError, NotFound, NoToken, VersionConflict
from holdfast.server import metrics
from holdfast.server.tokens import Bearer, Tokens, Verified
from holdfast.settings import Settings
from holdfast.store import Store

A = TypeVar("A")

VERIFIED = "holdfast.verified"
"""Where the scope of a request has what its token says."""
GOOD = "holdfast.good"
"""Where it has whether the store has just found that the token is still good."""
COMMANDS = "holdfast.commands"
"""Where it has the names of the commands that were carried out for it."""


def identity_of(request: Request) -> Bearer:
    """Who asks. Every path under /execution and /api has been asked for its token before."""
    verified: Verified | None = request.scope.get(VERIFIED)
    if verified is None:
        raise NoToken("there is no token with the request")
    return verified.identity


def settings_of(request: Request) -> Settings:
    return cast(Settings, request.app.state.settings)


def store_of(request: Request) -> Store:
    """The store itself, which asks nobody who they are; routes use `perform`."""
    return cast(Store, request.app.state.store)


def tokens_of(request: Request) -> Tokens:
    return cast(Tokens, request.app.state.tokens)


async def perform(request: Request, command: Command[A], once: RequestId | None = None) -> A:
    """Carry the command out for whoever asks; Forbidden where they may not."""
    inner: Command[Any] = authorized(identity_of(request), command)
    if once is not None:
        inner = Once(once, inner)
    answer = await execute_counted(request, inner, type(command).__name__)
    if isinstance(command, FinishAttempt) or (isinstance(command, Heartbeat) and answer.attempts):
        request.scope[GOOD] = False
    return cast(A, answer)


async def execute_counted(request: Request, command: Command[Any], name: str) -> Any:
    """Carry out, count and log a command that they may ask."""
    request.scope.setdefault(COMMANDS, []).append(name)
    try:
        answer = await store_of(request).aexecute(command)
    except HoldfastError as error:
        metrics.count_command(name, error.code)
        # What is not there, or has another version, was looked up for a bearer who may.
        request.scope[GOOD] = isinstance(error, NotFound | VersionConflict)
        raise
    metrics.count_command(name, "ok")
    request.scope[GOOD] = True
    return answer
