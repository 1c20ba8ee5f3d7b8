"""Reading of the Parquet files of a table's version, as rows of its present schema."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.errors import SourceChanged
from holdfast.portable.lake.footers import footer_of, packed
from holdfast.portable.lake.nesting import from_start, is_list
from holdfast.portable.lake.storage import (
    Files,
    for_each,
    is_absolute,
    open_files,
    split_path,
    translated,
)

BATCH = 32 * 2**20
"""Size of the rows that are decoded at the same time."""
BATCH_ROWS = 2**16
ID = b"PARQUET:field_id"
NAMES = b"holdfast.names"
"""The key of the names, as JSON, that a column has or had in files without ids, in its metadata."""
FOOTERS = "path string, size long, footer binary"
"""The columns of what `read_footers` returns."""
_FOOTERS = pa.schema({"path": pa.string(), "size": pa.int64(), "footer": pa.binary()})


class Piece(NamedTuple):
    """A part of a file: every `of`-th row group, beginning with `first`."""

    path: str
    size: int
    values: dict[str, str | None] | None = None
    """The values of partition columns, as text. They replace what the file has."""
    first: int = 0
    of: int = 1


class Reading(NamedTuple):
    """What the tasks of a Spark job read: the row `id` of its input is a task."""

    location: str
    options: dict[str, str]
    tasks: tuple[bytes, ...]
    """The pieces of each task."""
    schema: pa.Schema
    """The columns of the result, with field ids as in Parquet files where columns have them."""

    def pieces(self, task: int) -> list[Piece]:
        return [Piece(*each) for each in json.loads(zlib.decompress(self.tasks[task]))]


def pack_pieces(pieces: Iterable[Piece]) -> bytes:
    """Return the pieces of a task in the form in which they are sent."""
    return zlib.compress(json.dumps(list(pieces)).encode(), 1)


def read(reading: Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the tasks that `batches` name."""
    opened: dict[str, Files] = {}
    for piece in _pieces(reading, batches):
        root, path = reading.location, piece.path
        if is_absolute(path):
            root, path = split_path(path)
        if root not in opened:
            opened[root] = open_files(root, reading.options)
        yield from _rows(reading, piece, opened[root], path)


def read_footers(reading: Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the footers of the files of the tasks that `batches` name."""
    files = open_files(reading.location, reading.options)
    for batch in batches:
        for task in batch.column(0).to_pylist():
            found = footers_of(files, reading.pieces(task))
            columns = zip(zip(*found, strict=True), _FOOTERS.types, strict=True)
            arrays = [pa.array(column, kind) for column, kind in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=_FOOTERS)


def footers_of(files: Files, pieces: Iterable[Piece]) -> list[tuple[str, int, bytes]]:
    """Return the path, the size and the packed footer of files."""
    return for_each(
        lambda piece: (piece.path, piece.size, packed(footer_of(files, piece.path, piece.size))),
        pieces,
    )


def _pieces(reading: Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
    for batch in batches:
        for task in batch.column(0).to_pylist():
            yield from reading.pieces(task)


def _rows(reading: Reading, piece: Piece, files: Files, path: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part of a file, by its path among the files that are given."""
    with translated("read", piece.path), closing(files.open(path)) as opened:
        try:
            file = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us", pre_buffer=True)
        except pa.ArrowInvalid as error:
            raise SourceChanged(
                f"{piece.path} is not a Parquet file, or is damaged: {error}",
                hint="restore the file from a backup",
            ) from error
        groups = list(range(piece.first, file.num_row_groups, piece.of))
        values = piece.values or {}
        columns = _Matching(file.schema_arrow)
        sources = [
            None if field.name in values else columns.find(field) for field in reading.schema
        ]
        plain = pa.schema([_plain(field) for field in reading.schema])
        for count, batch in _batches(file, groups, [each for each in sources if each is not None]):
            arrays = []
            for field, source in zip(reading.schema, sources, strict=True):
                if field.name in values:
                    array = _constant(values[field.name], field.type, count)
                elif source is None:
                    array = pa.nulls(count, _plain(field).type)
                else:
                    try:
                        array = conformed(batch.column(source.name), source, field)
                    except pa.ArrowInvalid as error:
                        raise SourceChanged(
                            f"the column `{field.name}` of the file {piece.path} does not fit into "
                            f"{field.type}: {error}",
                            hint="the file was not written for this table: restore the table, or "
                            "rewrite the file",
                        ) from error
                if not field.nullable and array.null_count:
                    raise SourceChanged(
                        f"the column `{field.name}` of the file {piece.path} has nulls, and the "
                        "table allows none",
                        hint="the file was not written for this table: rewrite the file",
                    )
                arrays.append(array)
            yield pa.RecordBatch.from_arrays(arrays, schema=plain)


def _batches(file: Any, groups: list[int], sources: list[pa.Field]) -> Iterator[tuple[int, Any]]:
    """Yield batches of these columns of row groups, with their numbers of rows."""
    for group in groups:
        found = file.metadata.row_group(group)
        if not found.num_rows:
            continue
        if not sources:
            for first in range(0, found.num_rows, BATCH_ROWS):
                yield min(BATCH_ROWS, found.num_rows - first), None
            continue
        most = max(1, min(BATCH_ROWS, BATCH * found.num_rows // max(1, found.total_byte_size)))
        names = [source.name for source in sources]
        for batch in file.iter_batches(most, row_groups=[group], columns=names):
            yield batch.num_rows, batch


class _Matching:
    """The fields of a file or of a struct in it, by id or by name."""

    def __init__(self, fields: Iterable[pa.Field]) -> None:
        self._fields = list(fields)
        self._ids = {id_of(field): field for field in self._fields if id_of(field) is not None}

    def find(self, wanted: pa.Field) -> pa.Field | None:
        """Return the field of a column; None if there is none."""
        if self._ids and id_of(wanted) is not None:
            return self._ids.get(id_of(wanted))
        if (names := (wanted.metadata or {}).get(NAMES)) is not None:
            known = json.loads(names)
            return next((field for field in self._fields if field.name in known), None)
        for field in self._fields:
            if field.name == wanted.name:
                return field
        same = [field for field in self._fields if field.name.lower() == wanted.name.lower()]
        return same[0] if len(same) == 1 else None


def id_of(field: pa.Field) -> int | None:
    found = (field.metadata or {}).get(ID)
    return None if found is None else int(found)


def conformed(array: pa.Array, source: pa.Field, wanted: pa.Field) -> pa.Array:
    """Return an array of a file with the type of a column: wider, and with the column's fields.

    Raise pyarrow's ArrowInvalid if a value does not fit.
    """
    kind = wanted.type
    if _is_same(source, wanted):
        return array
    if pa.types.is_struct(kind):
        children = dict(zip((each.name for each in source.type), array.flatten(), strict=True))
        matching = _Matching(source.type)
        arrays = []
        for field in kind:
            found = matching.find(field)
            arrays.append(
                pa.nulls(len(array), _plain(field).type)
                if found is None
                else conformed(children[found.name], found, field)
            )
        fields = [_plain(field).with_nullable(True) for field in kind]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=array.is_null())
    if pa.types.is_map(kind):
        array = from_start(array)
        keys = conformed(array.keys, source.type.key_field, kind.key_field)
        items = conformed(array.items, source.type.item_field, kind.item_field)
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=_nulls(array))
    if is_list(kind):
        array = from_start(array)
        items = conformed(array.values, source.type.value_field, kind.value_field)
        return pa.ListArray.from_arrays(array.offsets, items, mask=_nulls(array))
    # Times in nanoseconds become those of Spark, which has microseconds.
    return array.cast(options=pc.CastOptions(target_type=kind, allow_time_truncate=True))


def _is_same(source: pa.Field, wanted: pa.Field) -> bool:
    """Return whether an array has the type of a column, with the same fields in the same order."""
    kind, other = source.type, wanted.type
    if pa.types.is_nested(other):
        parts = (
            [kind.field(index) for index in range(kind.num_fields)] if _alike(kind, other) else []
        )
        others = [other.field(index) for index in range(other.num_fields)]
        return len(parts) == len(others) and all(
            (not pa.types.is_struct(other) or (one.name, id_of(one)) == (two.name, id_of(two)))
            and _is_same(one, two)
            for one, two in zip(parts, others, strict=True)
        )
    return bool(kind.equals(other))


def _alike(one: pa.DataType, other: pa.DataType) -> bool:
    return any(
        check(one) and check(other) for check in (pa.types.is_struct, pa.types.is_map, is_list)
    )


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _plain(field: pa.Field) -> pa.Field:
    """Return a field without ids, in it and below it."""
    return pa.field(field.name, _plain_type(field.type), field.nullable)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_plain(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_field))
    return kind


def _constant(text: str | None, kind: pa.DataType, count: int) -> pa.Array:
    """Return an array of the value of a partition column."""
    if text is None or (text == "" and not pa.types.is_string(kind)):
        return pa.nulls(count, kind)
    return pa.repeat(value_of(text, kind), count)


def value_of(text: str, kind: pa.DataType) -> pa.Scalar:
    """Return the value of a partition column from its text, in any of the forms of Delta."""
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            return pa.scalar(text.removesuffix("Z")).cast(kind)
        has_zone = text.endswith("Z") or text[-6:-5] in "+-" or text[-3:-2] in "+-"
        return pa.scalar(text if has_zone else f"{text}Z").cast(kind)
    if pa.types.is_binary(kind):
        return pa.scalar(text.encode("latin-1"), kind)
    return pa.scalar(text).cast(kind)


def partition_values(texts: Mapping[str, str | None], schema: pa.Schema) -> dict[str, Any]:
    """Return the values of partition columns from their texts."""
    return {
        name: _constant(text, schema.field(name).type, 1)[0].as_py() for name, text in texts.items()
    }
