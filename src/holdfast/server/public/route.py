"""How a route of the public API reads a request: strictly, and what it may answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from difflib import get_close_matches
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from holdfast.errors import InvalidInput, WrongContentType
from holdfast.server.problem import MEDIA_TYPE
from holdfast.server.problems import problems

PREFIX = "/api/v2"

bearer = HTTPBearer(
    bearerFormat="JWT",
    scheme_name="user_token",
    description="A user's token: `holdfast auth user-token --role viewer|editor|admin` makes one.",
    auto_error=False,
)


class PublicRoute(APIRoute):
    """Matches the path as it was sent, refuses what it does not know in the query, and takes JSON
    as the store does."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        return super().matches({**scope, "path": scope["raw_path"].decode("latin-1")})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in (self.methods or ()):
            routes = [one for one in scope["app"].routes if isinstance(one, PublicRoute)]
            allowed = {
                method for one in routes if one.path == self.path for method in one.methods or ()
            }
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(allowed))})
        await super().handle(scope, receive, send)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = _query_names(self.dependant)
        takes_body = self.body_field is not None

        async def read(request: Request) -> Response:
            for name in request.query_params:
                if name not in known:
                    raise _unknown(name, known)
            if takes_body:
                _check_content_type(request)
                request = _JsonRequest(request.scope, request.receive)
            return await handle(request)

        return read


def public_router(tag: str, *statuses: int) -> APIRouter:
    """A router for one noun, whose routes may all answer with these errors too."""
    return APIRouter(
        prefix=PREFIX,
        tags=[tag],
        route_class=PublicRoute,
        dependencies=[Security(bearer)],
        responses=problems(401, 403, 422, 429, 503, *statuses),
        generate_unique_id_function=lambda route: route.name,
        strict_content_type=False,
    )


class _JsonRequest(Request):
    async def json(self) -> Any:
        """InvalidInput reaches the client as it is: it is the cause of what FastAPI makes of it."""
        try:
            return msgspec.json.decode(await self.body())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(f"the body is not JSON: {error}") from None


def _query_names(dependant: Dependant) -> list[str]:
    names = [field.alias for field in dependant.query_params]
    for inner in dependant.dependencies:
        names += _query_names(inner)
    return names


def _unknown(name: str, known: list[str]) -> InvalidInput:
    shown = get_close_matches(name, known, n=3) or known
    hint = f"known here: {', '.join(shown)}" if known else "nothing is asked for there"
    return InvalidInput(f"the query has `{name[:100]}`, which is not known", hint=hint)


def _check_content_type(request: Request) -> None:
    given = request.headers.get("content-type", MEDIA_TYPE)
    if given.partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise WrongContentType(f"the body is {given[:100]}", hint=f"send it as {MEDIA_TYPE}")
