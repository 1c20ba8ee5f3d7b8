"""Leftovers of appends to a lake table: files that no version or snapshot of it names.

Only places of appends, below `data-holdfast`, are looked at. Files are listed before the table's
metadata is read, so that a file that is committed meanwhile is found there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from holdfast.errors import InvalidInput
from holdfast.portable.lake.storage import Files, Listed, for_each, open_files
from holdfast.spark.lake.delta import DeltaLake
from holdfast.spark.lake.executor_files import PLACES
from holdfast.spark.lake.table import LakeTable, Storage

if TYPE_CHECKING:
    from holdfast.spark.lake.iceberg import IcebergTable

_LOG: Final = "_delta_log"
_ACTIONS: Final = ("add", "remove")


class Place(NamedTuple):
    """The files of one attempt at an append."""

    path: str
    """Relative to the table's location: `data-holdfast/LOAD/ATTEMPT`."""
    files: list[Listed]
    """Those that nothing names."""
    named: int
    """The number of files that the table names."""
    age: timedelta
    """The time since the newest file, of either kind, was written."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def list_places(storage: Storage) -> dict[str, list[Listed]]:
    """Return the files of all appends to a table, by their places."""
    places: dict[str, list[Listed]] = {}
    for file in open_files(*storage).list(PLACES):
        place = "/".join(file.path.split("/")[:3])
        if file.path.count("/") >= 3:
            places.setdefault(place, []).append(file)
    return places


def leftovers(table: LakeTable, grace: timedelta) -> list[Place]:
    """Return the places with files that no version or snapshot names, without those in which a file
    was written within the grace period.

    An append that has not been committed has such files, too: the grace period has to be longer
    than any append. Raise InvalidInput if there is no table.
    """
    storage = _storage(table)
    places = list_places(storage)
    named = named_files(table)
    now = time.time()
    found = []
    for path, files in sorted(places.items()):
        unnamed = [file for file in files if _owner(file.path) not in named]
        age = timedelta(seconds=max(0.0, now - max(file.modified for file in files)))
        if unnamed and age >= grace:
            found.append(Place(path, unnamed, len(files) - len(unnamed), age))
    return found


def delete_leftovers(table: LakeTable, places: Iterable[Place]) -> list[Listed]:
    """Delete the files of leftovers that are still named by nothing, and return them."""
    files = [file for place in places for file in place.files]
    named = named_files(table)
    gone = [file for file in files if _owner(file.path) not in named]
    open_files(*_storage(table)).delete([file.path for file in gone])
    return gone


def named_files(table: LakeTable) -> set[str]:
    """Return the files of appends that any version or snapshot names, also removed ones that its
    history still has: their paths from `data-holdfast` on."""
    paths: Iterable[str]
    if isinstance(table, DeltaLake):
        paths = _of_delta(open_files(*_storage(table)))
    else:
        from holdfast.spark.lake.iceberg import IcebergTable

        assert isinstance(table, IcebergTable)
        paths = _of_iceberg(table)
    return {found for path in paths if (found := _below_places(path))}


def _storage(table: LakeTable) -> Storage:
    opened = table.open()
    if opened is None:
        raise InvalidInput(
            f"there is no table: {table.name}", hint="check the path, or the catalog and identifier"
        )
    return opened.storage


def _below_places(path: str) -> str:
    """Return the part of a path that is the same however the table's location is written."""
    _, found, below = path.rpartition(f"{PLACES}/")
    return f"{found}{below}" if found else ""


def _owner(path: str) -> str:
    """Return the file that a file belongs to: a checksum of Hadoop to the one that it is of."""
    directory, _, name = path.rpartition("/")
    if name.startswith(".") and name.endswith(".crc"):
        return f"{directory}/{name[1:].removesuffix('.crc')}"
    return path


def _of_delta(files: Files) -> set[str]:
    """Return the paths that commits and checkpoints of a log name."""
    ignored = (".crc", ".tmp")
    logged = [file for file in files.list(_LOG) if file.size and not file.path.endswith(ignored)]
    found: set[str] = set()  # each checkpoint names most files again
    for_each(lambda file: found.update(_paths_in(files, file)), logged)
    return found


def _paths_in(files: Files, file: Listed) -> Iterator[str]:
    if file.path.endswith(".parquet"):
        yield from _paths_in_checkpoint(files.tail(file.path, file.size, file.size))
    elif file.path.endswith(".json"):
        for line in files.tail(file.path, file.size, file.size).splitlines():
            action = json.loads(line)
            for kind in _ACTIONS:
                if kind in action:
                    yield from _spellings(action[kind]["path"])


def _paths_in_checkpoint(content: bytes) -> Iterator[str]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(BytesIO(content))
    columns = [f"{kind}.path" for kind in _ACTIONS if kind in file.schema_arrow.names]
    for batch in file.iter_batches(columns=columns) if columns else ():
        for actions in batch.columns:
            for action in actions.to_pylist():
                if action is not None and action["path"] is not None:
                    yield from _spellings(action["path"])


def _spellings(path: str) -> tuple[str, str]:
    """Return the path of an action as it is, and without the escapes of a URL."""
    return path, unquote(path)


def _of_iceberg(table: IcebergTable) -> Iterator[str]:
    """Yield the paths that the manifests of all snapshots name."""
    from holdfast.spark.lake.iceberg_catalog import load_table, translated

    loaded = load_table(table.catalog(), table.identifier, table.name)
    if loaded is None:
        return
    with translated(f"read {table.name}"):
        manifests: dict[str, Any] = {}
        for snapshot in loaded.metadata.snapshots:
            for manifest in snapshot.manifests(loaded.io):
                manifests[manifest.manifest_path] = manifest
        for entries in for_each(
            lambda manifest: manifest.fetch_manifest_entry(loaded.io, discard_deleted=False),
            manifests.values(),
        ):
            for entry in entries:
                yield entry.data_file.file_path
