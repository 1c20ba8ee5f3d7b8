"""Parallel listing of the objects in the storage, by Spark's executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from holdfast.model.scope import StoreScope
from holdfast.stores.offload.objects import naming
from holdfast.stores.offload.objects.backend import ObjectStoreBackend

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = 10_000
"""Number of objects in a batch for Spark."""
TURNS: Final = 4
"""Partitions of the listing per core, as some are larger than others."""
_OBJECTS: Final = "reference string, size long, last_modified timestamp, ours boolean"
_ARROW: Final = pa.schema(
    {
        "reference": pa.string(),
        "size": pa.int64(),
        "last_modified": pa.timestamp("us", "UTC"),
        "ours": pa.bool_(),
    }
)
_FOLDERS: Final = pa.schema({"folder": pa.string()})
_REFERENCES: Final = pa.schema({"reference": pa.string()})


def objects(
    spark: SparkSession, backend: ObjectStoreBackend, scope: StoreScope | None = None
) -> DataFrame:
    """Return all files below the folders of dags and assets, or below that of one scope, and
    whether each has the name of an object of ours."""
    if scope is not None:
        folder = spark.createDataFrame([(naming.folder(scope),)], "folder string")
        return folder.mapInArrow(partial(_objects, backend), _OBJECTS)
    # There are as many of these as dags and assets; executors list the folders below them.
    tops = [(folder,) for kind in backend.prefixes() for folder in backend.prefixes(kind)]
    parts = TURNS * spark.sparkContext.defaultParallelism
    folders = spark.createDataFrame(tops, "folder string").coalesce(max(1, min(parts, len(tops))))
    found = folders.mapInArrow(partial(_folders, backend), "folder string")
    return found.repartition(parts, "folder").mapInArrow(partial(_objects, backend), _OBJECTS)


def absent(references: DataFrame, backend: ObjectStoreBackend) -> DataFrame:
    """Return the references whose object does not exist at this moment."""
    return references.mapInArrow(partial(_absent, backend), "reference string")


def _folders(
    backend: ObjectStoreBackend, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for top in _texts(batches):
        yield pa.RecordBatch.from_pydict({"folder": backend.prefixes(top)}, _FOLDERS)


def _objects(
    backend: ObjectStoreBackend, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    found = (
        (*stored, naming.digest_and_suffix(stored.reference) is not None)
        for folder in _texts(batches)
        for stored in backend.list_objects(folder, foreign=True)
    )
    while page := list(islice(found, ROWS)):
        columns = zip(zip(*page, strict=True), _ARROW.types, strict=True)
        arrays = [pa.array(column, kind) for column, kind in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _absent(
    backend: ObjectStoreBackend, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        gone = [
            reference
            for reference in batch.column(0).to_pylist()
            if not backend.is_there(reference)
        ]
        yield pa.RecordBatch.from_pydict({"reference": gone}, _REFERENCES)


def _texts(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    for batch in batches:
        yield from batch.column(0).to_pylist()
