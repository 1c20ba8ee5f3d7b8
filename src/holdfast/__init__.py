"""Durable state for Spark data pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.connection import Connection, connect
    from holdfast.errors import HoldfastError
    from holdfast.portable.retention import NEVER_EXPIRE

__all__ = ["NEVER_EXPIRE", "Connection", "HoldfastError", "__version__", "connect"]

_HOMES = {
    "NEVER_EXPIRE": "holdfast.portable.retention",
    "Connection": "holdfast.connection",
    "HoldfastError": "holdfast.errors",
    "connect": "holdfast.connection",
}


def __getattr__(name: str) -> Any:
    # Loaded when asked for: `holdfast --version` should not wait for a database library.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    # For completion, before they are loaded.
    return sorted({*globals(), *__all__})
