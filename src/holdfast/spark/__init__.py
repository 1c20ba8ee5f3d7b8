"""The Spark API for pipelines, and the Spark server that the tasks of a run share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.spark.checkpoints.checkpoint import checkpointed
    from holdfast.spark.checkpoints.chunks import read_chunks, write_chunks
    from holdfast.spark.jobs.driver import driver
    from holdfast.spark.jobs.job import SparkJob
    from holdfast.spark.lake.chunk_append import append_chunks
    from holdfast.spark.lake.delta import delta
    from holdfast.spark.lake.iceberg import iceberg
    from holdfast.spark.lake.table_reader import read_table
    from holdfast.spark.lake.task_append import append
    from holdfast.spark.loads.directory_reader import read_loads
    from holdfast.spark.loads.incremental import incremental, portions
    from holdfast.spark.source.registration import register
    from holdfast.spark.streams.streaming import follow, foreach_batch

__all__ = [
    "SparkJob",
    "append",
    "append_chunks",
    "checkpointed",
    "delta",
    "driver",
    "follow",
    "foreach_batch",
    "iceberg",
    "incremental",
    "portions",
    "read_chunks",
    "read_loads",
    "read_table",
    "register",
    "write_chunks",
]

_HOMES = {
    "SparkJob": "jobs.job",
    "append": "lake.task_append",
    "append_chunks": "lake.chunk_append",
    "checkpointed": "checkpoints.checkpoint",
    "delta": "lake.delta",
    "driver": "jobs.driver",
    "follow": "streams.streaming",
    "foreach_batch": "streams.streaming",
    "iceberg": "lake.iceberg",
    "incremental": "loads.incremental",
    "portions": "loads.incremental",
    "read_loads": "loads.directory_reader",
    "read_table": "lake.table_reader",
    "read_chunks": "checkpoints.chunks",
    "register": "source.registration",
    "write_chunks": "checkpoints.chunks",
}


def __getattr__(name: str) -> Any:
    # Imported lazily: the runner uses this package, too, and does not need these.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    # For completion before the lazy import.
    return sorted({*globals(), *__all__})
