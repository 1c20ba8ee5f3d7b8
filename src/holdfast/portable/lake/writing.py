"""Writing of rows into Parquet files by Spark's executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.errors import InvalidInput
from holdfast.portable.lake.footers import packed
from holdfast.portable.lake.nesting import from_start, is_list
from holdfast.portable.lake.partitions import directory, partition_text
from holdfast.portable.lake.storage import Files, open_files

BUFFER = 64 * 2**20
"""Size in memory of the rows that become a row group."""
GROUP_ROWS = 2**20
COMPRESSION = "snappy"
WRITTEN = "path string, size long, partition array<string>, footer binary"
"""The columns of what `write` returns."""
_WRITTEN = pa.schema(
    {
        "path": pa.string(),
        "size": pa.int64(),
        "partition": pa.list_(pa.string()),
        "footer": pa.binary(),
    }
)


class Target(NamedTuple):
    """Where rows are written, and how they are partitioned."""

    location: str
    options: dict[str, str]
    place: str
    """The directory below the location."""
    columns: tuple[str, ...]
    """The names of the columns, in their order."""
    partition_by: tuple[str, ...]
    keep_partition_columns: bool
    """Whether partition columns are also in the files."""


def write(target: Target, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of a Spark partition, and yield a row for each file.

    Every file has a new name, so that the attempts of a Spark task never share one: the rows that
    Spark returns name exactly the files that count. Rows with the same values in the partition
    columns are in one file if they follow each other.
    """
    files = open_files(target.location, target.options)
    writer: FileWriter | None = None
    try:
        for unnamed in batches:
            batch = unnamed.rename_columns(target.columns)
            for values, rows in _runs(batch, target.partition_by):
                if writer is not None and writer.values != values:
                    yield writer.finish()
                    writer = None
                if writer is None:
                    writer = FileWriter(files, target, values)
                writer.add(rows)
        if writer is not None:
            yield writer.finish()
    except BaseException as error:
        if writer is not None:
            writer.abandon(error)
        raise


class FileWriter:
    """Writes one file. Rows are collected until they are enough for a row group."""

    def __init__(self, files: Files, target: Target, values: tuple[str | None, ...]) -> None:
        self.values = values
        below = f"{directory(values)}/" if values else ""
        self._path = f"{target.place}/{below}{uuid4().hex}.parquet"
        self._files = files
        self._left_out = [] if target.keep_partition_columns else list(target.partition_by)
        self._stack = ExitStack()
        self._footers: list[Any] = []
        self._file: Any = None
        self._writer: Any = None
        self._waiting: list[pa.RecordBatch] = []
        self._size = self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        batch = batch.drop_columns(self._left_out)
        self._waiting.append(_writable(batch))
        self._size += batch.nbytes
        self._rows += batch.num_rows
        if self._size >= BUFFER or self._rows >= GROUP_ROWS:
            self._write()

    def finish(self) -> pa.RecordBatch:
        """Complete the file, and return the row that names it."""
        self._write()
        with self._stack:
            self._writer.close()
            size = self._file.tell()
        content = pa.BufferOutputStream()
        self._footers[0].write_metadata_file(content)
        footer = packed(content.getvalue().to_pybytes())
        row = [[self._path], [size], [list(self.values)], [footer]]
        arrays = [pa.array(each, kind) for each, kind in zip(row, _WRITTEN.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_WRITTEN)

    def abandon(self, error: BaseException) -> None:
        """Remove what has been written, where the storage can."""
        if self._writer is not None:
            self._writer.is_open = False  # so that it does not write to a closed file
        with suppress(BaseException):
            self._stack.__exit__(type(error), error, error.__traceback__)

    def _write(self) -> None:
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting)
        if self._writer is None:
            self._file = self._stack.enter_context(self._files.create(self._path))
            self._writer = pq.ParquetWriter(
                self._file,
                rows.schema,
                version="2.6",
                compression=COMPRESSION,
                coerce_timestamps="us",
                store_decimal_as_integer=True,
                store_schema=False,  # other readers would not know it
                metadata_collector=self._footers,
            )
        self._writer.write_table(rows, row_group_size=GROUP_ROWS)
        self._waiting = []
        self._size = self._rows = 0


def _writable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows in which required fields of structs that are null have values, which are not
    written: pyarrow refuses nulls there."""
    if not any(map(_has_required_fields, batch.schema)):
        return batch
    arrays = [_filled(array, field) for array, field in zip(batch, batch.schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _has_required_fields(field: pa.Field) -> bool:
    kind = field.type
    parts = [kind.field(index) for index in range(kind.num_fields)]
    return any(map(_has_required_fields, parts)) or (
        pa.types.is_struct(kind) and not all(part.nullable for part in parts)
    )


def _filled(array: pa.Array, field: pa.Field, is_required: bool = False) -> pa.Array:
    """Return an array with values in place of the nulls of required fields, in it and below it."""
    kind = field.type
    nulls = array.is_null() if array.null_count and not is_required else None
    if pa.types.is_struct(kind):
        arrays = [
            _filled(array.field(index), kind.field(index), not kind.field(index).nullable)
            for index in range(kind.num_fields)
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=nulls)
    if pa.types.is_map(kind) or is_list(kind):
        array = from_start(array)
        if pa.types.is_map(kind):
            items = _filled(array.items, kind.item_field)
            keys = _filled(array.keys, kind.key_field)
            return pa.MapArray.from_arrays(array.offsets, keys, items, kind, mask=nulls)
        values = _filled(array.values, kind.value_field)
        return type(array).from_arrays(array.offsets, values, kind, mask=nulls)
    if not is_required or not array.null_count:
        return array
    buffers = [None, *array.buffers()[1:]]
    return pa.Array.from_buffers(kind, len(array), buffers, 0, array.offset)


def _runs(
    batch: pa.RecordBatch, names: Sequence[str]
) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """Yield runs of rows that have the same values in these columns, with the texts of these."""
    if batch.num_rows == 0:
        return
    if not names:
        yield (), batch
        return
    columns = [_encoded(batch.column(name), name) for name in names]
    starts = {0}
    for _, indices in columns:
        changed = pc.not_equal(indices[1:], indices[:-1])
        starts.update(pc.indices_nonzero(changed).to_numpy() + 1)
    ordered = sorted(starts)
    for start, end in zip(ordered, [*ordered[1:], batch.num_rows], strict=True):
        start = int(start)
        values = tuple(texts[indices[start].as_py()] for texts, indices in columns)
        yield values, batch.slice(start, int(end) - start)


def _encoded(column: pa.Array, name: str) -> tuple[list[str | None], pa.Array]:
    """Return the texts of the distinct values of a column, and the index of each row's text."""
    encoded = column.dictionary_encode(null_encoding="encode")
    return _texts(encoded.dictionary, name), encoded.indices


def _texts(values: pa.Array, name: str) -> list[str | None]:
    if pa.types.is_timestamp(values.type):
        # In UTC: not every machine knows every time zone.
        ending = "" if values.type.tz is None else "Z"
        plain = values.cast(pa.timestamp("us"))
        texts = [partition_text(value) for value in _python(plain, name)]
        return [text and (text.replace(" ", "T") + ending if ending else text) for text in texts]
    return [partition_text(value) for value in _python(values, name)]


def _python(values: pa.Array, name: str) -> list[Any]:
    try:
        return list(values.to_pylist())
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"a value of the partition column `{name}` is out of range: {error}",
            hint="partition by dates and times of the years 1 to 9999",
        ) from error
