"""Data files of lake tables, written and read by Spark's executors without a jar."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import InvalidInput
from holdfast.portable.lake.footers import unpacked
from holdfast.portable.lake.partitions import LONGEST, values_in
from holdfast.portable.lake.storage import Listed, open_files
from holdfast.spark.code_shipping import ship
from holdfast.spark.error_translation import translated
from holdfast.spark.lake.changes import TableFile
from holdfast.spark.lake.table import DataFile, Storage
from holdfast.spark.loads.column_lookup import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

PLACES: Final = "data-holdfast"
"""The directory below a table in which every write has a directory of its own."""
PARTITION: Final = "holdfast"
"""The column of directories, where Spark's own writer makes them: `holdfast=2024-01-01,DE`."""
TOO_LONG: Final = "holdfast: the values of a partition are too long for a directory"
SPLIT: Final = 128 * 2**20
"""Size of the part of a file, or of the small files together, that one Spark task reads."""
SMALLEST: Final = 8 * 2**20
"""Size for which a task of its own is worthwhile."""
OPENING: Final = 256 * 1024
"""Size that takes as long to read as opening a file."""
TASKS: Final = 32
"""Number of tasks that keep every Spark busy; larger sizes have more."""
ON_DRIVER: Final = 64
"""Number of files whose footers are read in this process: a Spark job takes longer."""
_UNPARTITIONABLE: Final = ("binary", "struct", "array", "map", "variant", "void")


def write_files(
    df: DataFrame,
    storage: Storage,
    place: str,
    partition_by: Sequence[str],
    *,
    keep_partition_columns: bool,
) -> list[DataFile]:
    """Write rows into Parquet files below a place, on executors, and return the files, which are
    durable.

    The files of Spark tasks that failed or were slower than their copies are not returned, and
    remain. Raise InvalidInput for a partition column whose type has no text.
    """
    from holdfast.portable.lake.writing import WRITTEN, Target, write

    check_partition_columns(df.schema, partition_by)
    ship()
    target = Target(*storage, place, tuple(df.columns), tuple(partition_by), keep_partition_columns)
    # PySpark looks the columns up by name, and cannot find `a.b`.
    positions = {name: f"c{index}" for index, name in enumerate(df.columns)}
    rows = df.toDF(*positions.values())
    if partition_by:
        rows = rows.sortWithinPartitions(*(positions[name] for name in partition_by))
    with translated(f"write the files of {storage.location}"):
        written = rows.mapInArrow(partial(write, target), WRITTEN).collect()
    open_files(*storage).sync([row.path for row in written])
    return [
        DataFile(row.path, row.size, tuple(row.partition), unpacked(bytes(row.footer)))
        for row in written
    ]


def check_partition_columns(schema: StructType, partition_by: Sequence[str]) -> None:
    """Raise InvalidInput for a partition column whose type has no text."""
    for name in partition_by:
        kind = schema[name].dataType
        if kind.typeName() in _UNPARTITIONABLE or "interval" in kind.simpleString():
            raise InvalidInput(
                f"the partition column `{name}` is of type {kind.simpleString()}",
                hint="partition by columns of text, numbers, dates, times or booleans",
            )


def partition_column(schema: StructType, partition_by: Sequence[str]) -> Column:
    """Return the column by which Spark's own writer partitions: its text is a directory's name.

    Spark fails with TOO_LONG where a name would be too long; `write_files` can write such rows.
    """
    from pyspark.sql import functions as f

    check_partition_columns(schema, partition_by)
    parts = []
    for name in partition_by:
        value = f.col(quoted(name))
        kind = schema[name].dataType.typeName()
        # Not in the session's time zone.
        text = (f.unix_micros(value) if kind == "timestamp" else value).cast("string")
        escaped = f.url_encode(text)
        for character, ours in (("%", "~"), ("+", "~20"), ("*", "~2A")):
            escaped = f.replace(escaped, f.lit(character), f.lit(ours))
        filled = f.when(text == "", f.lit("~empty")).otherwise(escaped)
        parts.append(f.coalesce(filled, f.lit("~null")))
    joined = f.concat_ws(",", *parts)
    return f.when(f.length(joined) <= LONGEST, joined).otherwise(f.raise_error(f.lit(TOO_LONG)))


def collect_footers(
    spark: SparkSession, storage: Storage, place: str, partition_by: Sequence[tuple[str, DataType]]
) -> list[DataFile]:
    """Return the files that Spark's own writer has written below a place, partitioned by
    `partition_column` if there are partition columns."""
    files = open_files(*storage)
    with translated(f"read the files of {storage.location}"):
        found = [each for each in files.list(place) if _is_data(each.path[len(place) + 1 :])]
        footers = _footers(spark, storage, found)
        files.sync([each.path for each in found])
    return [
        DataFile(path, size, _partition(path, partition_by), unpacked(footer))
        for path, size, footer in footers
    ]


def _is_data(path: str) -> bool:
    return not any(part.startswith(("_", ".")) for part in path.split("/"))


def _footers(
    spark: SparkSession, storage: Storage, found: Sequence[Listed]
) -> Sequence[tuple[str, int, bytes]]:
    from holdfast.portable.lake.reading import FOOTERS, Piece, footers_of, read_footers

    pieces = [Piece(each.path, each.size) for each in found]
    if len(pieces) <= ON_DRIVER:
        return footers_of(open_files(*storage), pieces)
    count = min(TASKS, len(pieces) // ON_DRIVER + 1)
    tasks = [pieces[first::count] for first in range(count)]
    rows = _over(spark, partial(read_footers, _reading(storage, tasks)), FOOTERS, count).collect()
    return [(row.path, row.size, bytes(row.footer)) for row in rows]


def _partition(path: str, partition_by: Sequence[tuple[str, DataType]]) -> tuple[str | None, ...]:
    from holdfast.portable.lake.partitions import partition_text

    if not partition_by:
        return ()
    [name] = [part for part in path.split("/") if part.startswith(f"{PARTITION}=")]
    texts = values_in(name.partition("=")[2])
    try:
        return tuple(
            text if text is None else partition_text(_value(text, kind))
            for text, (_, kind) in zip(texts, partition_by, strict=True)
        )
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"a value of the partition {name} is out of range: {error}",
            hint="partition by dates and times of the years 1 to 9999",
        ) from error


def _value(text: str, kind: DataType) -> Any:
    """Return the value of a text that Spark has made."""
    from datetime import UTC, date, datetime, timedelta
    from decimal import Decimal

    match kind.typeName():
        case "timestamp":
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(text))
        case "timestamp_ntz":
            return datetime.fromisoformat(text)
        case "date":
            return date.fromisoformat(text)
        case "decimal":
            return Decimal(text)
        case "float" | "double":
            return float(text)
    return text


def read_files(
    spark: SparkSession, storage: Storage, files: Iterable[TableFile], schema: StructType
) -> DataFrame:
    """Return the rows of Parquet files as a DataFrame with exactly that schema.

    Columns that a file does not have are null, and numbers are widened. Columns are found by their
    ids, where the schema's metadata (`parquet.field.id`) and the file have them, else by one of the
    names in the metadata (`holdfast.names`), else by name.
    """
    from holdfast.portable.lake.reading import read

    tasks = _tasks(files)
    if not tasks:
        # From Arrow, so that Spark starts no Python worker for it.
        return spark.createDataFrame(arrow_schema(schema).empty_table(), schema)
    reading = _reading(storage, tasks, arrow_schema(schema))
    return _over(spark, partial(read, reading), schema, len(tasks))


def _tasks(files: Iterable[TableFile]) -> list[list[Any]]:
    """Return the pieces that each Spark task reads, of similar sizes."""
    from holdfast.portable.lake.reading import Piece

    found = [(file, max(file.size, OPENING)) for file in files]
    most = min(SPLIT, max(SMALLEST, sum(size for _, size in found) // TASKS))
    tasks: list[list[Any]] = []
    room = 0
    for file, size in found:
        of = max(1, size // most)
        for index in range(of):
            if room <= 0:
                tasks.append([])
                room = most
            tasks[-1].append(Piece(file.path, file.size, dict(file.values), index, of))
            room -= size // of
    return tasks


def _reading(
    storage: Storage, tasks: Iterable[Iterable[Any]], schema: pa.Schema | None = None
) -> Any:
    from holdfast.portable.lake.reading import Reading, pack_pieces

    return Reading(*storage, tuple(map(pack_pieces, tasks)), schema)


def _over(spark: SparkSession, work: Any, schema: Any, count: int) -> DataFrame:
    """Return what a function yields for the numbers below `count`, each in a Spark task."""
    ship()
    return spark.range(0, count, 1, count).mapInArrow(work, schema)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the columns in Arrow's types, with the ids of `parquet.field.id`."""
    import pyarrow as pa

    return pa.schema([_arrow_field(field) for field in schema])


def _arrow_field(field: StructField) -> pa.Field:
    import pyarrow as pa

    metadata = {}
    if (id := field.metadata.get("parquet.field.id")) is not None:
        metadata["PARQUET:field_id"] = str(id)
    if (names := field.metadata.get("holdfast.names")) is not None:
        metadata["holdfast.names"] = json.dumps(names)
    return pa.field(field.name, _arrow_type(field.dataType), field.nullable, metadata or None)


def _arrow_type(kind: DataType) -> pa.DataType:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case StructType():
            return pa.struct([_arrow_field(field) for field in kind])
        case ArrayType():
            return pa.list_(pa.field("element", _arrow_type(kind.elementType), kind.containsNull))
        case MapType():
            value = pa.field("value", _arrow_type(kind.valueType), kind.valueContainsNull)
            return pa.map_(_arrow_type(kind.keyType), value)
    return to_arrow_type(kind, timezone="UTC")


def delete_files(storage: Storage, paths: Iterable[str]) -> None:
    """Delete files of a table by their paths; absent ones count as deleted."""
    with translated(f"delete files of {storage.location}"):
        open_files(*storage).delete(paths)
