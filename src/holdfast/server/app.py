"""The server's ASGI application and its OpenAPI description."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from fastapi import FastAPI
from starlette.types import ASGIApp, Lifespan

from holdfast.server import status
from holdfast.server.execution import routes as execution
from holdfast.server.execution.openapi import command_schemas
from holdfast.server.http import error_responses
from holdfast.server.http.lean_routes import LeanRoutes
from holdfast.server.http.limits import Connections, RequestQueue
from holdfast.server.http.middleware import RequestMiddleware
from holdfast.server.public import (
    alerts,
    all_state,
    asset_state,
    assets,
    dags,
    logs,
    pools,
    runs,
    task_instances,
    task_state,
)
from holdfast.server.storage_threads import DiskSpace
from holdfast.server.tokens import Tokens
from holdfast.settings import Settings
from holdfast.store import Store
from holdfast.version import __version__

ROUTES = (
    *(execution, status, dags, pools, runs, task_instances, logs, task_state),
    *(assets, asset_state, all_state, alerts),
)
"""The modules with routes, in the order in which the description lists them."""


def make_app(
    store: Store, tokens: Tokens, settings: Settings, lifespan: Lifespan[Any] | None = None
) -> FastAPI:
    """Return the server's application, over a store that outlives it."""
    app = _Application(
        title="Holdfast",
        version=__version__,
        lifespan=lifespan,
        redirect_slashes=False,
        openapi_url=None,
    )
    app.state.store = store
    app.state.tokens = tokens
    app.state.settings = settings
    app.state.connections = Connections()
    app.state.request_queue = RequestQueue()
    app.state.disks = DiskSpace(settings)
    app.state.metrics = status.MetricsCache(store, app.state.disks)
    error_responses.install(app)
    for module in ROUTES:
        app.router.routes.extend(module.router.routes)
    return app


class _Application(FastAPI):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._describing = asyncio.Lock()
        self._description = b""

    async def openapi_json(self) -> bytes:
        """Return the OpenAPI description. It is built on the first request, in a thread, as it
        takes a while."""
        async with self._describing:
            if not self._description:
                described = await asyncio.to_thread(self.openapi)
                self._description = msgspec.json.encode(described)
        return self._description

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            super().openapi()["components"]["schemas"].update(command_schemas())
        return super().openapi()

    def build_middleware_stack(self) -> ASGIApp:
        inner, lean = super().build_middleware_stack(), LeanRoutes(execution.router)
        return RequestMiddleware(inner, lean, self.state.tokens, self.state.settings.api)
