"""Shipping of Holdfast's code by value to Spark processes that do not have it installed."""

from __future__ import annotations

from types import ModuleType

from holdfast import errors, portable
from holdfast.errors import MissingDependency


def ship(*modules: ModuleType) -> None:
    """Have PySpark pickle `holdfast.portable`, `holdfast.errors` and these modules by value, not by
    name."""
    try:
        from pyspark import cloudpickle
    except ImportError:
        raise MissingDependency(
            "handles need the package pyspark, which is not installed",
            hint='pip install "holdfast-state[spark]"',
        ) from None
    for module in (errors, portable, *modules):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
