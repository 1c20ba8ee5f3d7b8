"""The snapshots of an Iceberg table, from the newest of its main branch back to the first.

A snapshot names its parent, so a snapshot that was rolled back is not among the ancestors of the
newest one. What a snapshot has added and removed is in the manifests that it has written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import InvalidInput, NotSupported, TableChanged
from holdfast.portable.lake.partitions import partition_text
from holdfast.spark.lake.changes import (
    FIELD_ID,
    NAMES,
    History,
    Layout,
    Position,
    Step,
    TableFile,
    with_fields,
)
from holdfast.spark.lake.iceberg_catalog import translated
from holdfast.spark.lake.iceberg_types import spark_schema, spark_type
from holdfast.spark.lake.table import Storage

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.table import Table
    from pyiceberg.table.name_mapping import MappedField
    from pyiceberg.table.snapshots import Snapshot

_AT_ONCE: Final = 16
"""Number of manifests that are read at the same time."""
_RELOAD: Final = 'on_change="reload" reads the whole table again'


class IcebergHistory(History):
    """The history of an Iceberg table's main branch."""

    kind = "iceberg"

    def __init__(self, table: Table, name: str, storage: Storage) -> None:
        self._table = table
        self.name = name
        self.storage = storage
        self._id = str(table.metadata.table_uuid)

    def newest(self) -> Position | None:
        found = self._table.current_snapshot()
        return None if found is None else self._position(found)

    def find(self, version: int) -> Position:
        newest = self._table.metadata.current_snapshot_id
        for found in [] if newest is None else self._lineage(newest):
            if found.snapshot_id == version:
                return self._position(found)
        raise InvalidInput(
            f"{self.name} has no snapshot {version} in its main branch, or no longer",
            hint=f"its newest snapshot is {newest}",
        )

    def check(self, position: Position) -> None:
        if position.table not in ("", self._id):
            raise TableChanged(
                f"{self.name} is not the table of the last load: it was deleted, and created again",
                hint=f"{_RELOAD}; another key= loads it under a watermark of its own",
            )
        newest = self.newest()
        if newest is None:
            raise self._rolled_back(position)
        self._between(position, newest)

    def includes(self, one: Position, other: Position) -> bool:
        return any(found.snapshot_id == other.version for found in self._lineage(one.version))

    def steps(self, after: Position, to: Position) -> Iterator[Step]:
        for snapshot in reversed(self._between(after, to)):
            yield self._step(snapshot)

    def files(self, at: Position) -> Sequence[TableFile]:
        if self._table.snapshot_by_id(at.version) is None:
            raise TableChanged(f"{self.name} no longer has the snapshot {at.version}", hint=_RELOAD)
        with translated(f"read {self.name}"):
            tasks = list(self._table.scan(snapshot_id=at.version).plan_files())
        if any(task.delete_files for task in tasks):
            raise NotSupported(
                f"the snapshot {at.version} of {self.name} has row-level deletes",
                hint="rewrite its data files (rewrite_data_files), which applies them",
            )
        return [self._file(task.file) for task in tasks]

    def layout(self, at: Position | None) -> Layout:
        snapshot = None if at is None else self._table.snapshot_by_id(at.version)
        number = snapshot.schema_id if snapshot else None
        schema = self._table.schema() if number is None else self._table.schemas()[number]
        spark_schema(schema)  # raises NotSupported
        mapping = self._table.metadata.name_mapping()
        names = None if mapping is None else dict(_names(mapping.root))
        stored = _with_ids(schema.as_struct(), names)
        return Layout(with_fields(stored), stored)

    def absent(self, paths: Sequence[str]) -> list[str]:
        # A snapshot keeps its files, also those that a later one has compacted.
        return []

    def _position(self, snapshot: Snapshot) -> Position:
        return Position(snapshot.snapshot_id, self._id, sequence=snapshot.sequence_number or 0)

    def _lineage(self, version: int) -> Iterator[Snapshot]:
        """Yield a snapshot and its ancestors, as far as they are not expired."""
        from pyiceberg.table.snapshots import ancestors_of

        return iter(ancestors_of(self._table.snapshot_by_id(version), self._table.metadata))

    def _between(self, after: Position, to: Position) -> list[Snapshot]:
        """Return the snapshots after one up to another, the newest first. Raise TableChanged if
        they do not follow it."""
        found: list[Snapshot] = []
        for snapshot in self._lineage(to.version):
            if snapshot.snapshot_id == after.version:
                return found
            if after.sequence and (snapshot.sequence_number or 0) <= after.sequence:
                raise self._rolled_back(after)
            found.append(snapshot)
            if snapshot.parent_snapshot_id == after.version:
                return found  # which itself may be expired
        # PyIceberg also removes the expired parent from a snapshot.
        raise TableChanged(
            f"the snapshots of {self.name} after {after.version}, which the last load read, are "
            "not all known any more: some are expired, or the table was rolled back",
            hint=f"{_RELOAD}; load more often than snapshots are expired",
        )

    def _step(self, snapshot: Snapshot) -> Step:
        from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
        from pyiceberg.table.snapshots import Operation

        position = self._position(snapshot)
        operation = snapshot.summary.operation if snapshot.summary else None
        if operation == Operation.REPLACE:
            return Step(position, [])
        appended = []
        with translated(f"read {self.name}"):
            entries = list(self._own_entries(snapshot))
        for entry, content in entries:
            if content != ManifestContent.DATA or entry.status == ManifestEntryStatus.DELETED:
                shown = operation.value if operation else "unknown"
                raise TableChanged(
                    f"the snapshot {snapshot.snapshot_id} of {self.name} ({shown}) changed or "
                    "removed rows",
                    hint=_RELOAD,
                )
            appended.append(self._file(entry.data_file))
        return Step(position, appended)

    def _own_entries(self, snapshot: Snapshot) -> Iterator[tuple[ManifestEntry, Any]]:
        """Yield what a snapshot has added or deleted, with the kind of its manifest."""
        from pyiceberg.manifest import ManifestEntryStatus

        io, own = self._table.io, snapshot.snapshot_id
        manifests = [one for one in snapshot.manifests(io) if one.added_snapshot_id == own]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            read = pool.map(lambda one: one.fetch_manifest_entry(io, False), manifests)
            for manifest, entries in zip(manifests, read, strict=True):
                for entry in entries:
                    changes = entry.status != ManifestEntryStatus.EXISTING
                    if changes and entry.snapshot_id in (own, None):
                        yield entry, manifest.content

    def _file(self, file: DataFile) -> TableFile:
        from pyiceberg.manifest import FileFormat

        if file.file_format != FileFormat.PARQUET:
            raise NotSupported(
                f"{self.name} has files in the format {file.file_format.value}",
                hint="rewrite them as Parquet",
            )
        # Not as a URL: its escapes are part of the name.
        path = file.file_path.removeprefix("file://")
        return TableFile(path, file.file_size_in_bytes, file.record_count, self._values(file))

    def _values(self, file: DataFile) -> dict[str, str | None]:
        """Return the values of the columns by which a file is partitioned: files of tables that
        were migrated do not contain them."""
        from pyiceberg.transforms import IdentityTransform

        spec, schema = self._table.specs()[file.spec_id], self._table.schema()
        values = {}
        for at, field in enumerate(spec.fields):
            known = field.source_id in schema._lazy_id_to_field
            if isinstance(field.transform, IdentityTransform) and known:
                kind = schema.find_type(field.source_id)
                values[schema.find_column_name(field.source_id)] = (kind, file.partition[at])
        return {
            name: partition_text(_value(kind, value))
            for name, (kind, value) in values.items()
            if name is not None and "." not in name and _has_text(kind)
        }

    def _rolled_back(self, position: Position) -> TableChanged:
        return TableChanged(
            f"the snapshot {position.version} of {self.name}, which the last load read, is not in "
            "the past of the newest one: the table was rolled back",
            hint=_RELOAD,
        )


def _names(fields: Sequence[MappedField]) -> Iterator[tuple[int, list[str]]]:
    """Yield the names that the columns have in files without ids."""
    for field in fields:
        if field.field_id is not None:
            yield field.field_id, list(field.names)
        yield from _names(field.fields)


def _with_ids(kind: Any, names: dict[int, list[str]] | None) -> Any:
    """Return a type in Spark's types, with the ids of its fields, and their names in files without
    ids if there is a mapping of names."""
    from pyiceberg import types as theirs
    from pyspark.sql import types as spark

    match kind:
        case theirs.StructType():
            fields = []
            for field in kind.fields:
                metadata: dict[str, Any] = {FIELD_ID: field.field_id}
                if names is not None:
                    metadata[NAMES] = names.get(field.field_id, [])
                inner = _with_ids(field.field_type, names)
                fields.append(spark.StructField(field.name, inner, field.optional, metadata))
            return spark.StructType(fields)
        case theirs.ListType():
            return spark.ArrayType(_with_ids(kind.element_type, names), not kind.element_required)
        case theirs.MapType():
            key, value = _with_ids(kind.key_type, names), _with_ids(kind.value_type, names)
            return spark.MapType(key, value, not kind.value_required)
    return spark_type(kind, "")


def _has_text(kind: Any) -> bool:
    from pyiceberg.types import BinaryType, FixedType, TimeType, UUIDType

    return not isinstance(kind, BinaryType | FixedType | TimeType | UUIDType)


def _value(kind: Any, value: Any) -> Any:
    """Return the value of a partition column from that in a manifest."""
    from pyiceberg.types import DateType, TimestampType, TimestamptzType
    from pyiceberg.utils.datetime import days_to_date, micros_to_timestamp, micros_to_timestamptz

    if not isinstance(value, int):
        return value
    match kind:
        case DateType():
            return days_to_date(value)
        case TimestampType():
            return micros_to_timestamp(value)
        case TimestamptzType():
            return micros_to_timestamptz(value)
    return value
