"""What a process loads once, so that the children it forks need not."""

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
    """Import what tasks with Spark use. No channel is opened and nothing of gRPC is started: a
    process that has, may not fork."""
    for module in MODULES:
        import_module(module)
