"""Routes for frequent requests, with as little overhead as possible.

FastAPI describes them as all others, but does not execute them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

PREFIX = "/execution/"
STORE, STATE = f"{PREFIX}store/", f"{PREFIX}state/"
"""Two prefixes of the same routes."""
BODY = "holdfast.body"
"""The key of a request's scope that holds its whole body."""


class LeanRoutes:
    """Finds the function for a path, which is matched undecoded."""

    def __init__(self, router: APIRouter) -> None:
        self._routes: dict[str, tuple[re.Pattern[str], APIRoute, dict[str, Endpoint]]] = {}
        for route in router.routes:
            assert isinstance(route, APIRoute)
            _, _, endpoints = self._routes.setdefault(route.path, (route.path_regex, route, {}))
            for method in route.methods or ():
                endpoints[method] = route.endpoint

    async def answer(self, scope: Scope, receive: Receive) -> Response:
        path = scope["raw_path"].decode("ascii")
        if path.startswith(STATE):
            path = STORE + path.removeprefix(STATE)
        scope["path"] = path
        for pattern, route, endpoints in self._routes.values():
            match = pattern.match(path)
            if match is None:
                continue
            scope["route"] = route
            scope["path_params"] = match.groupdict()
            endpoint = endpoints.get(scope["method"])
            if endpoint is None:
                raise HTTPException(405)
            return await endpoint(Request(scope, receive))
        raise HTTPException(404)
