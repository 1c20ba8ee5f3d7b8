"""The route class of the public API: strict requests, and the errors of a route."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from holdfast.errors import InvalidInput
from holdfast.server.http.limits import read_aside
from holdfast.server.http.strictness import check_content_type, check_query
from holdfast.server.public.error_docs import problems

PREFIX = "/api/v2"

bearer = HTTPBearer(
    bearerFormat="JWT",
    scheme_name="user_token",
    description="A user's token: `holdfast auth user-token --role viewer|editor|admin` prints one.",
    auto_error=False,
)


class PublicRoute(APIRoute):
    """Matches the undecoded path, rejects unknown query names, and decodes JSON like the store."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        return super().matches({**scope, "path": scope["raw_path"].decode("latin-1")})

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = _query_names(self.dependant)
        takes_body = self.body_field is not None

        async def read(request: Request) -> Response:
            check_query(request.query_params, known)
            if takes_body:
                check_content_type(request)
                request = _JsonRequest(request.scope, request.receive)
            return await handle(request)

        return read


def public_router(tag: str, *statuses: int) -> APIRouter:
    """Return a router for one noun, whose routes may also respond with these errors."""
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
        """Decode the body. Raise InvalidInput, which reaches the client unchanged: it is the cause
        of the error that FastAPI makes of it."""
        try:
            body = await self.body()
            return await read_aside(body, msgspec.json.decode, body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(f"the body is not JSON: {error}") from None


def _query_names(dependant: Dependant) -> list[str]:
    names = [field.alias for field in dependant.query_params]
    for inner in dependant.dependencies:
        names += _query_names(inner)
    return names
