"""Letting Spark send code of ours to processes that do not have it."""

from __future__ import annotations

from holdfast import errors, portable
from holdfast.errors import MissingDependency


def ship() -> None:
    """Let PySpark pickle what is in `holdfast.portable` whole, not by name."""
    try:
        from pyspark import cloudpickle
    except ImportError:
        raise MissingDependency(
            "handles are for Spark, and the package pyspark is not installed",
            hint='pip install "holdfast-state[spark]"',
        ) from None
    for module in (errors, portable):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
