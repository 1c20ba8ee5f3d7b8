"""The commits of a Delta table, read from its log.

deltalake shows the state of a version, not the files of a commit. These are in the commit's JSON,
which stays until the log is cleaned up, also after a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from holdfast.errors import BackendFailed, InvalidInput, NotSupported, TableChanged
from holdfast.portable.lake.partitions import partition_text
from holdfast.spark.lake.changes import (
    FIELD_ID,
    History,
    Layout,
    Position,
    Step,
    TableFile,
    plain,
    with_fields,
)
from holdfast.spark.lake.delta import DeltaLake, translated

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

_AT_ONCE: Final = 16
"""Number of commits that are read at the same time."""
_MAPPING_PREFIX: Final = "delta.columnMapping."
_MAPPING: Final = f"{_MAPPING_PREFIX}mode"
_RELOAD: Final = 'on_change="reload" reads the whole table again'


class _Stats(msgspec.Struct, frozen=True):
    numRecords: int | None = None  # noqa: N815


class _Add(msgspec.Struct, frozen=True):
    path: str
    partitionValues: dict[str, str | None]  # noqa: N815
    size: int
    dataChange: bool  # noqa: N815
    stats: str | None = None
    deletionVector: dict[str, Any] | None = None  # noqa: N815


class _Remove(msgspec.Struct, frozen=True):
    path: str
    dataChange: bool  # noqa: N815


class _Info(msgspec.Struct, frozen=True):
    operation: str | None = "unknown"


class _Action(msgspec.Struct, frozen=True):
    add: _Add | None = None
    remove: _Remove | None = None
    commitInfo: _Info | None = None  # noqa: N815


class _Commit:
    """A commit's actions, as far as they concern rows."""

    def __init__(self, content: bytes) -> None:
        actions = msgspec.json.Decoder(_Action).decode_lines(content)
        self.digest = sha256(content).hexdigest()[:32]
        self.adds = [one.add for one in actions if one.add]
        self.removes = [one.remove for one in actions if one.remove]
        infos = [one.commitInfo for one in actions if one.commitInfo]
        self.operation = infos[0].operation if infos else _Info().operation


class DeltaHistory(History):
    """The history of a Delta table."""

    kind = "delta"

    def __init__(self, lake: DeltaLake) -> None:
        self._lake = lake
        self._table = self._opened(None)
        self.name = lake.name
        self.storage = lake.storage
        self._id = str(self._table.metadata().id)
        self._log = self._open_log()

    def newest(self) -> Position:
        return self._position(self._table.version())

    def find(self, version: int) -> Position:
        self._at(version)
        return self._position(version)

    def check(self, position: Position) -> None:
        if position.table not in ("", self._id):
            raise TableChanged(
                f"{self.name} is not the table of the last load: it was deleted or replaced, and "
                "created again",
                hint=f"{_RELOAD}; another key= loads it under a watermark of its own",
            )
        if position.version > self._table.version():
            raise TableChanged(
                f"{self.name} has the version {self._table.version()}, and the last load read the "
                f"version {position.version}: its log was restored from a copy",
                hint=_RELOAD,
            )
        found = self._read(position.version) if position.commit else None
        if found is not None and found.digest != position.commit:
            raise TableChanged(
                f"the version {position.version} of {self.name} is not the one that the last load "
                "read: its log was restored from a copy, and continued",
                hint=_RELOAD,
            )

    def includes(self, one: Position, other: Position) -> bool:
        return other.version <= one.version

    def steps(self, after: Position, to: Position) -> Iterator[Step]:
        for first in range(after.version + 1, to.version + 1, _AT_ONCE):
            versions = range(first, min(first + _AT_ONCE, to.version + 1))
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                commits = list(pool.map(self._read, versions))
            for version, commit in zip(versions, commits, strict=True):
                yield self._step(version, commit)

    def files(self, at: Position) -> Sequence[TableFile]:
        table = self._at(at.version)
        with translated(self.name):
            vectors = table.deletion_vectors().read_all().num_rows
            found = table.get_add_actions(flatten=False)
        if vectors:
            raise self._deletion_vectors(at.version)
        layout, columns = self._layout(table), table.metadata().partition_columns
        stored = dict(zip(layout.schema.names, layout.stored.names, strict=True))
        names = ["path", "size_bytes", "num_records", *(["partition"] if columns else [])]
        rows = zip(*(found.column(name).to_pylist() for name in names), strict=True)
        return [
            TableFile(
                unquote(path),
                size,
                count,
                {stored[name]: partition_text(values[0][name]) or None for name in columns},
            )
            for path, size, count, *values in rows
        ]

    def layout(self, at: Position | None) -> Layout:
        return self._layout(self._table if at is None else self._at(at.version))

    def _layout(self, table: Any) -> Layout:
        from pyspark.sql.types import StructType

        schema = StructType.fromJson(json.loads(table.schema().to_json()))
        mode = table.metadata().configuration.get(_MAPPING, "none")
        return Layout(with_fields(schema), with_fields(schema, _MAPPED.get(mode, plain)))

    def absent(self, paths: Sequence[str]) -> list[str]:
        if not paths:
            return []
        from pyarrow.fs import FileType

        found = self._log.get_file_info(list(paths))
        return [info.path for info in found if info.type == FileType.NotFound]

    def _open_log(self) -> Any:
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        # With the configuration that deltalake itself has of the storage.
        return PyFileSystem(DeltaStorageHandler.from_table(self._table._table))

    def _at(self, version: int) -> Any:
        """Return the table at a version. Raise InvalidInput if it does not have it."""
        if version == self._table.version():
            return self._table
        if not 0 <= version < self._table.version():
            raise InvalidInput(
                f"{self.name} has no version {version}",
                hint=f"its newest version is {self._table.version()}",
            )
        try:
            return self._opened(version)
        except (BackendFailed, InvalidInput) as error:
            raise InvalidInput(
                f"{self.name} no longer has the version {version}, or it cannot be read",
                hint="its log may have been cleaned up since; the newest version is "
                f"{self._table.version()}",
            ) from error

    def _opened(self, version: int | None) -> Any:
        table = self._lake.open_library(version)
        if table is None:
            raise InvalidInput(
                f"{self._lake.name} does not exist", hint="a load reads a table that others write"
            )
        return table

    def _position(self, version: int) -> Position:
        commit = self._read(version)
        return Position(version, self._id, commit.digest if commit else "")

    def _read(self, version: int) -> _Commit | None:
        """Return a commit; None if the log no longer has it."""
        try:
            with self._log.open_input_stream(f"_delta_log/{version:020}.json") as stream:
                return _Commit(stream.read())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise BackendFailed(
                f"the commit {version} of {self.name} cannot be read: {error}",
                hint="check the URL and storage_options; if they are right, repair the log",
            ) from None

    def _step(self, version: int, commit: _Commit | None) -> Step:
        if commit is None:
            raise TableChanged(
                f"the log of {self.name} no longer has the version {version}, which no load has "
                "read",
                hint=f"{_RELOAD}; delta.logRetentionDuration says how long versions are kept",
            )
        if any(one.dataChange for one in commit.removes):
            raise TableChanged(
                f"the version {version} of {self.name} ({commit.operation}) changed or removed "
                "rows",
                hint=_RELOAD,
            )
        added = [one for one in commit.adds if one.dataChange]
        if any(one.deletionVector is not None for one in added):
            raise self._deletion_vectors(version)
        return Step(
            Position(version, self._id, commit.digest),
            [_file(one) for one in added],
            frozenset(unquote(one.path) for one in commit.removes),
        )

    def _deletion_vectors(self, version: int) -> NotSupported:
        return NotSupported(
            f"the version {version} of {self.name} has files with deletion vectors",
            hint="REORG TABLE … APPLY (PURGE) rewrites them without",
        )


def _file(add: _Add) -> TableFile:
    stats = msgspec.json.decode(add.stats, type=_Stats) if add.stats else _Stats()
    # The format has empty text for null.
    values = {name: value or None for name, value in add.partitionValues.items()}
    return TableFile(unquote(add.path), add.size, stats.numRecords, values)


def _by_name(field: StructField) -> tuple[str, dict[str, Any]]:
    return field.metadata[f"{_MAPPING_PREFIX}physicalName"], {}


def _by_id(field: StructField) -> tuple[str, dict[str, Any]]:
    return _by_name(field)[0], {FIELD_ID: field.metadata[f"{_MAPPING_PREFIX}id"]}


_MAPPED: Final = {"name": _by_name, "id": _by_id}
"""How columns are found in files, for each mode of column mapping."""
