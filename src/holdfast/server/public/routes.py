"""All routes of the public API."""

from __future__ import annotations

from starlette.routing import BaseRoute

from holdfast.server.public import (
    all_state,
    asset_state,
    assets,
    dags,
    runs,
    task_instances,
    task_state,
)


def routes() -> list[BaseRoute]:
    """Return all routes, in the order in which the description lists them."""
    modules = (dags, runs, task_instances, task_state, assets, asset_state, all_state)
    return [route for module in modules for route in module.router.routes]
