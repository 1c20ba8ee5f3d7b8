"""Entries of data files in Iceberg's manifests, made from Parquet footers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyiceberg import manifest
from pyiceberg import types as theirs
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    StatisticsCollector,
    compute_statistics_plan,
    schema_to_pyarrow,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.utils.decimal import unscaled_to_decimal
from pyiceberg.utils.truncate import (
    truncate_upper_bound_binary_string,
    truncate_upper_bound_text_string,
)

from holdfast.errors import TableChanged
from holdfast.portable.lake.footers import metadata_of
from holdfast.spark.lake.iceberg_types import partition_value
from holdfast.spark.lake.table import DataFile

_FIELD_ID: Final = b"PARQUET:field_id"
_WIDER: Final = frozenset(
    {
        (pa.int8(), pa.int32()),
        (pa.int16(), pa.int32()),
        (pa.int8(), pa.int64()),
        (pa.int16(), pa.int64()),
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
    }
)
"""Types that files may have for those of a table."""


class _Kept(NamedTuple):
    """What footers with one schema have in common: the field id of each leaf column."""

    schema: pa.Schema
    ids: list[int]


class ManifestEntries:
    """Makes the entries of data files that were written for a table."""

    def __init__(
        self, schema: Schema, spec: PartitionSpec, properties: Mapping[str, str], location: str
    ) -> None:
        self._schema = schema
        self._spec = spec
        self._location = location.rstrip("/")
        self._plan = compute_statistics_plan(schema, dict(properties))
        self._values = [
            (field.transform, field.transform.result_type(schema.find_type(field.source_id)))
            for field in spec.fields
        ]
        self._kept: list[_Kept] = []
        self.has_ids: bool | None = None
        """Whether the columns of the files have Iceberg's ids; None: there was no file."""

    def entry(self, file: DataFile) -> manifest.DataFile:
        """Return the entry of a file. Raise TableChanged if its columns or its partition are not
        those of the table."""
        footer = metadata_of(file.footer)
        columns = Columns(footer, self._ids(footer, file.path), self._plan)
        for field in self._schema.fields:
            if field.required and columns.nulls.get(field.field_id):
                raise _misfit(file.path, [f"`{field.name}` has nulls, which the table forbids"])
        lower, upper = columns.bounds()
        return manifest.DataFile.from_args(
            content=manifest.DataFileContent.DATA,
            file_path=f"{self._location}/{file.path}",
            file_format=manifest.FileFormat.PARQUET,
            partition=self._partition(file),
            record_count=footer.num_rows,
            file_size_in_bytes=file.size,
            column_sizes=columns.sizes,
            value_counts=columns.values,
            null_value_counts=columns.nulls,
            nan_value_counts={},
            lower_bounds=lower,
            upper_bounds=upper,
            key_metadata=None,
            split_offsets=_offsets(footer),
            equality_ids=None,
            sort_order_id=None,
            spec_id=self._spec.spec_id,
        )

    def _partition(self, file: DataFile) -> Record:
        texts = list(file.partition)
        expected = sum(not isinstance(transform, VoidTransform) for transform, _ in self._values)
        if len(texts) != expected:
            raise TableChanged(
                f"{file.path} has {len(texts)} partition values, and the table has {expected}",
                hint="run this again: the table's partitioning has changed meanwhile",
            )
        return Record(
            *(
                None
                if isinstance(transform, VoidTransform)
                else partition_value(transform, kind, texts.pop(0))
                for transform, kind in self._values
            )
        )

    def _ids(self, footer: Any, path: str) -> list[int]:
        """Return the field id of each leaf column of a file."""
        schema = footer.schema.to_arrow_schema()
        for kept in self._kept:
            if schema.equals(kept.schema, check_metadata=True):
                return kept.ids
        ids: list[int] = []
        problems: list[str] = []
        written: set[bool] = set()
        struct = pa.struct(list(schema))
        for leaf in _leaves(struct, self._schema.as_struct(), ""):
            ids.append(leaf.id)
            problems += leaf.problems
            written.update(leaf.has_ids)
        if written == {True, False}:
            problems.append("some columns have ids, others not")
        if self.has_ids is not None and written != {self.has_ids}:
            problems.append("its columns have ids and those of other files not, or the reverse")
        if problems:
            raise _misfit(path, problems)
        self.has_ids = written == {True}
        self._kept.append(_Kept(schema, ids))
        return ids


class Columns:
    """Statistics of a file's columns by field id: only what holds for all of its rows."""

    def __init__(
        self, footer: Any, ids: Sequence[int], plan: Mapping[int, StatisticsCollector]
    ) -> None:
        self._plan = plan
        self.sizes: dict[int, int] = dict.fromkeys(ids, 0)
        self.values: dict[int, int] = {}
        self.nulls: dict[int, int] = {}
        self._ranges: dict[int, tuple[Any, Any]] = {}
        self._unknown: set[int] = set()
        """Columns of which a row group does not have the lowest and highest value."""
        uncounted: set[int] = set()
        for group in map(footer.row_group, range(footer.num_row_groups)):
            for index, id in enumerate(ids):
                column = group.column(index)
                self.sizes[id] += column.total_compressed_size
                if plan[id].mode.type == MetricModeTypes.NONE:
                    continue
                self.values[id] = self.values.get(id, 0) + column.num_values
                found = column.statistics if column.is_stats_set else None
                if found is None or not found.has_null_count:
                    uncounted.add(id)
                else:
                    self.nulls[id] = self.nulls.get(id, 0) + found.null_count
                self._widen(id, found, column.num_values)
        for id in uncounted:
            self.nulls.pop(id, None)

    def bounds(self) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """Return the lower and the upper bounds."""
        lower, upper = {}, {}
        for id, (least, most) in self._ranges.items():
            if id in self._unknown:
                continue
            kind, width = self._plan[id].iceberg_type, self._plan[id].mode.length
            try:
                low, high = _value(kind, least), _value(kind, most)
                lower[id] = to_bytes(kind, low if width is None else low[:width])
                if isinstance(high, str):
                    high = truncate_upper_bound_text_string(high, width)
                elif isinstance(high, bytes):
                    high = truncate_upper_bound_binary_string(high, width)
                if high is not None:
                    upper[id] = to_bytes(kind, high)
            except (UnicodeError, ArithmeticError):
                lower.pop(id, None)
        return lower, upper

    def _widen(self, id: int, found: Any, count: int) -> None:
        kept = self._plan[id]
        if kept.mode.type == MetricModeTypes.COUNTS or "." in kept.column_name:
            return
        if found is None or not found.has_min_max:
            # A row group without any value has no bounds; writers also leave out long ones.
            if found is None or not found.has_null_count or found.null_count < count:
                self._unknown.add(id)
            return
        least, most = found.min_raw, found.max_raw
        if isinstance(least, float):
            if math.isnan(least) or math.isnan(most):
                self._unknown.add(id)
                return
            # Writers may leave out the sign of zero.
            least, most = least or -0.0, most or 0.0
        if found.physical_type == "FIXED_LEN_BYTE_ARRAY":
            least, most = (int.from_bytes(one, "big", signed=True) for one in (least, most))
        if id in self._ranges:
            before = self._ranges[id]
            least, most = min(least, before[0]), max(most, before[1])
        self._ranges[id] = least, most


class _Leaf(NamedTuple):
    id: int
    has_ids: tuple[bool, ...]
    """Whether the fields down to the leaf have ids."""
    problems: tuple[str, ...]


def _leaves(kind: pa.DataType, target: theirs.IcebergType, where: str) -> Iterator[_Leaf]:
    """Yield the leaf columns of a file's type, and how it differs from that of the table."""
    match target:
        case theirs.StructType() if pa.types.is_struct(kind):
            by_name = {field.name: field for field in target.fields}
            inner = [kind.field(index) for index in range(kind.num_fields)]
            for missing in by_name.keys() - {field.name for field in inner}:
                if by_name[missing].required:
                    yield _Leaf(0, (), (f"`{where}{missing}` is missing",))
            for field in inner:
                if field.name not in by_name:
                    yield _Leaf(0, (), (f"`{where}{field.name}` is not in the table",))
                else:
                    yield from _below(field, by_name[field.name], f"{where}{field.name}")
        case theirs.ListType() if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            yield from _below(kind.value_field, target.element_field, f"{where}element")
        case theirs.MapType() if pa.types.is_map(kind):
            yield from _below(kind.key_field, target.key_field, f"{where}key")
            yield from _below(kind.item_field, target.value_field, f"{where}value")
        case theirs.PrimitiveType() if _fits(kind, target):
            yield _Leaf(0, (), ())
        case _:
            shown = where.removesuffix(".")
            yield _Leaf(0, (), (f"`{shown}` is {kind}, and {target} in the table",))


def _below(field: pa.Field, target: theirs.NestedField, where: str) -> Iterator[_Leaf]:
    id = (field.metadata or {}).get(_FIELD_ID)
    wrong = () if id in (None, str(target.field_id).encode()) else (f"`{where}` has the id {id!r}",)
    for leaf in _leaves(field.type, target.field_type, f"{where}."):
        yield _Leaf(
            leaf.id or target.field_id, (id is not None, *leaf.has_ids), wrong + leaf.problems
        )


def _fits(kind: pa.DataType, target: theirs.PrimitiveType) -> bool:
    if isinstance(target, theirs.DecimalType):
        decimal = pa.types.is_decimal(kind)
        return bool(decimal and kind.scale == target.scale and kind.precision <= target.precision)
    if isinstance(target, theirs.StringType):
        return kind in (pa.string(), pa.large_string())
    if isinstance(target, theirs.BinaryType):
        return kind in (pa.binary(), pa.large_binary())
    expected = schema_to_pyarrow(target)
    return bool(kind == expected or (kind, expected) in _WIDER)


def _value(kind: theirs.PrimitiveType, raw: Any) -> Any:
    """Return the value of a Parquet statistic."""
    match kind:
        case theirs.DecimalType():
            return unscaled_to_decimal(raw, kind.scale)
        case theirs.StringType():
            return raw.decode()
    return raw


def _offsets(footer: Any) -> list[int]:
    firsts = [footer.row_group(index).column(0) for index in range(footer.num_row_groups)]
    return sorted(
        min(first.data_page_offset, first.dictionary_page_offset or first.data_page_offset)
        for first in firsts
    )


def _misfit(path: str, problems: Sequence[str]) -> TableChanged:
    return TableChanged(
        f"the file {path} does not fit the table: {'; '.join(problems[:5])}; nothing was committed",
        hint="run this again: the table's columns may have changed meanwhile",
    )
