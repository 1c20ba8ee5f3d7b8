"""What travels to Spark's workers by value, so that nothing of Holdfast need be installed there."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Final, cast

from pyspark import cloudpickle

SHIPPED: Final = (
    "holdfast.errors",
    "holdfast.portable.identifier",
    "holdfast.portable.tables",
    "holdfast.portable.retention",
    "holdfast.portable.transport",
    "holdfast.spark.source.tables",
    "holdfast.spark.source.location",
    "holdfast.portable.client",
    "holdfast.spark.source.options",
    "holdfast.spark.source.plainness",
    "holdfast.spark.source.predicate",
    "holdfast.spark.source.reading",
    "holdfast.spark.source.columns",
    "holdfast.spark.source.writing",
    "holdfast.spark.source.datasource",
)


def ship() -> None:
    """Let PySpark pickle these modules' functions and classes whole, not by name."""
    register = cast(Callable[[ModuleType], None], cloudpickle.register_pickle_by_value)
    for name in SHIPPED:
        register(import_module(name))
