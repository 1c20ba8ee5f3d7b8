"""Output of Spark in checkpointed chunks: a later attempt writes only the remaining ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.accessor.task_store import TaskStore
from holdfast.errors import InvalidInput, InvalidType
from holdfast.spark.checkpoints.checkpoint import Record, digest
from holdfast.spark.checkpoints.edition import TRY, Edition
from holdfast.spark.checkpoints.item import directory_of, name_of, named
from holdfast.spark.paths import absolute, check_path, renames
from holdfast.spark.publication import discard_drafts, is_there, manifest_of, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter
    from pyspark.sql.types import StructType

T = TypeVar("T")

log = logging.getLogger("holdfast")


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
    """Write the DataFrame that `make` makes of each item into a directory of its own below `path`;
    return the paths of the items' content, in the order of the items.

    A directory is named after its item, and replaced whole, by a rename. If this process cannot
    rename it, each attempt writes to a directory of its own below it, and only the one that is
    returned counts: use `read_chunks` with the returned paths. A chunk is recorded once it is
    written; chunks that earlier attempts have recorded are not written again, unless they are gone,
    or another task has replaced them.
    """
    spark, base = _session(), check_path("the path", path).rstrip("/")
    if spark is not None:
        base = absolute(spark, base)
    record = Record(task_store, key, retention)
    edition = Edition(task_store, key, retention)
    chunks = {f"{base}/{directory_of(one)}": item for one, item in named(items, name).items()}
    paths = edition.recorded(chunks, record.order)
    is_seen = spark is not None and renames(spark, base)
    for directory in _gone(paths, edition.id) if is_seen else ():
        log.warning("%s: %s is recorded but missing or replaced; writing it again", key, directory)
        del paths[directory]
    record.say(len(chunks), len(paths))
    rest = [directory for directory in chunks if directory not in paths]
    if rest:
        edition.begin()
    with record:
        for directory in rest:
            writer = _writer_of(make(chunks[directory]), chunks[directory])
            paths[directory] = _write(writer, directory, edition)
            record.add(digest(paths[directory]))
    if (spark := _session()) is not None and renames(spark, base):
        discard_drafts(base, edition.id)  # also those of items that are no longer in the list
    return [paths[directory] for directory in chunks]


def read_chunks(spark: SparkSession | DataFrameReader, paths: Sequence[str]) -> DataFrame:
    """Read the paths that `write_chunks` has returned, and nothing else beside them.

    The column `chunk` has the names of the items, as text. Pass a reader instead of the session for
    another format than Parquet, or options: `read_chunks(spark.read.format("orc"), paths)`.
    """
    is_list = isinstance(paths, list | tuple) and all(isinstance(one, str) for one in paths)
    if not paths or not is_list:
        raise InvalidInput(
            f"read_chunks takes the paths that write_chunks returned, not {paths!r}",
            hint="paths = write_chunks(…); read_chunks(spark, paths)",
        )
    # Spark refuses to read directories of different depth together.
    groups: dict[tuple[str, bool], list[str]] = {}
    for path in paths:
        base, _, below = path.rpartition("/chunk=")
        groups.setdefault((base, "/" in below), []).append(path)
    reader: Any = getattr(spark, "read", spark)
    # All schemas first: a reader keeps a schema that is set for all later loads.
    schemas = [
        # From all files: a column that only a later chunk has would be missing otherwise.
        reader.load(group, basePath=base, mergeSchema="true").schema
        for (base, _), group in groups.items()
    ]
    frames = [
        _read(reader, schema, base, group)
        for schema, ((base, _), group) in zip(schemas, groups.items(), strict=True)
    ]
    return reduce(lambda some, more: some.unionByName(more, allowMissingColumns=True), frames)


def _read(reader: Any, schema: StructType, base: str, paths: list[str]) -> DataFrame:
    from pyspark.sql.functions import col, decode, encode
    from pyspark.sql.types import StringType, StructField, StructType

    found = schema.fields
    # Spark would turn `chunk=007` into the number 7.
    names = ["chunk", *([TRY] if f"/{TRY}=" in paths[0] else [])]
    text = [StructField(name, StringType()) for name in names]
    typed = StructType([*(field for field in found if field.name not in names), *text])
    rows: DataFrame = reader.schema(typed).load(paths, basePath=base)
    # Spark decodes `%C3%BC` as two characters, not as the two bytes of one.
    name = decode(encode(col("chunk"), "ISO-8859-1"), "UTF-8")
    return rows.withColumn("chunk", name).drop(TRY)


def _gone(paths: dict[str, str], edition: str) -> list[str]:
    """Return the directories whose content is gone, or of another edition."""

    def is_own(path: str) -> bool:
        # Without a manifest, it is the output of an attempt that could not rename.
        return bool((manifest_of(path) or {}).get("edition", edition) == edition)

    return [directory for directory, path in paths.items() if not (is_there(path) and is_own(path))]


def _session() -> SparkSession | None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    with suppress(PySparkRuntimeError):  # there is no session
        return SparkSession.active()
    return None


def _writer_of(made: DataFrame | DataFrameWriter, item: object) -> Any:
    writer: Any = getattr(made, "write", made)
    if not hasattr(writer, "save"):
        raise InvalidType(
            f"the function returned a {type(made).__name__} for {item!r}, which cannot be written",
            hint="return the DataFrame, or its writer: df.write.format(…).partitionBy(…)",
        )
    for column in _columns(writer):
        if column.lower() in ("chunk", TRY):
            raise InvalidInput(
                f"the column `{column}` of the DataFrame for {item!r} has the same name as a "
                "directory of the chunks",
                hint=f'rename it: withColumnRenamed("{column}", "…")',
            )
    # In dynamic mode, partitions that this write does not have would remain.
    return writer.option("partitionOverwriteMode", "static").mode("overwrite")


def _columns(writer: Any) -> list[str]:
    """Return the columns that a writer writes."""
    if hasattr(writer._df, "columns"):
        return list(writer._df.columns)
    from pyspark.sql.connect.dataframe import DataFrame

    return DataFrame(writer._df, writer._spark).columns


def _write(writer: Any, directory: str, edition: Edition) -> str:
    """Write a chunk, and return its path."""

    def write(draft: str) -> None:
        edition.confirm()
        writer.save(draft)

    if renames(writer._spark, directory):
        publish(write, directory, edition=edition.id, manifest={})
        return directory
    path = edition.path(directory)
    writer.save(path)
    return path
