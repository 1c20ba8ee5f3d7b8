"""The packages of the extra `server`."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec

from holdfast.errors import MissingDependency

PACKAGES = ("fastapi", "uvicorn", "httptools", "jwt", "prometheus_client")


def check() -> None:
    """Raise MissingDependency where one is not installed."""
    for package in PACKAGES:
        found = None
        with suppress(ModuleNotFoundError):
            found = find_spec(package)
        if found is None:
            raise MissingDependency(
                f"the server needs the package {package}, which is not installed",
                hint='pip install "holdfast-state[server]"',
            )
