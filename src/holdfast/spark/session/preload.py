"""Modules that a process imports once, before it forks children that need them."""

from __future__ import annotations

from importlib import import_module
from typing import Final

MODULES: Final = (
    "pyspark.sql.connect.session",
    "pyspark.sql.connect.functions",
    "pyspark.sql.connect.udf",
    "pyspark.sql.connect.catalog",
    "pyspark.sql.connect.window",
    "pyspark.sql.functions",
    "pyspark.sql.types",
    "pyspark.sql.window",
    "holdfast.spark.session.retries",
    "holdfast.spark.session.progress",
    "holdfast.spark.session.session",
    "holdfast.spark.source.registration",
)


def preload() -> None:
    """Import the modules that tasks with Spark use. This opens no channel and starts nothing of
    gRPC, after which a process must not fork."""
    for module in MODULES:
        import_module(module)
