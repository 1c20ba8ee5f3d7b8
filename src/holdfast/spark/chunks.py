"""Output of Spark that is written in chunks, of which a later attempt writes the rest only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.accessor import TaskStore
from holdfast.errors import InvalidType
from holdfast.spark.checkpoint import checkpointed
from holdfast.spark.item import directory_of, name_of, named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.readwriter import DataFrameWriter

T = TypeVar("T")


def write_chunks(
    items: Iterable[T],
    task_store: TaskStore,
    path: str,
    make: Callable[[T], DataFrame | DataFrameWriter],
    *,
    key: str,
    name: Callable[[T], str] = name_of,
    retention: timedelta | None = None,
) -> list[str]:
    """Write what `make` makes of each item into a directory of its own below `path`; the
    directories, in the order of the items.

    A directory is named after its item and replaced whole. It is recorded when its write has
    committed; what an attempt before this one has recorded is not written again.
    """
    base = str(path).rstrip("/")
    chunks = {f"{base}/{directory_of(one)}": item for one, item in named(items, name).items()}
    for directory in checkpointed(chunks, task_store, key=key, retention=retention):
        _replace(directory, make(chunks[directory]), chunks[directory])
    return list(chunks)


def _replace(directory: str, made: DataFrame | DataFrameWriter, item: object) -> None:
    writer: Any = getattr(made, "write", made)
    if not hasattr(writer, "save"):
        raise InvalidType(
            f"{item!r} was made into a {type(made).__name__}, which cannot be written",
            hint="return the DataFrame, or its writer: df.write.format(…).partitionBy(…)",
        )
    # Whole: in dynamic mode, partitions that this write does not have would stay.
    writer.option("partitionOverwriteMode", "static").mode("overwrite").save(directory)
