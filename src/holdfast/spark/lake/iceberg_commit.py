"""Commits of Iceberg tables: what they contain, and how files are added on a condition."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec
from pydantic import PrivateAttr
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.transforms import VoidTransform

from holdfast.errors import InvalidInput, NotSupported, TableChanged
from holdfast.spark.lake.iceberg_catalog import described, translated
from holdfast.spark.lake.iceberg_files import ManifestEntries
from holdfast.spark.lake.iceberg_types import (
    UNPARTITIONABLE,
    iceberg_type,
    parsed_transform,
    spark_schema,
)
from holdfast.spark.lake.table import (
    CommitConflict,
    DataFile,
    Found,
    Identity,
    OpenTable,
    PartitionColumn,
    Stamp,
    Storage,
    UnknownOutcome,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

MAIN: Final = "main"
STAMP: Final = "holdfast.stamp"
"""The property of a snapshot that has the stamp."""
SEQUENCE: Final = "holdfast.sequence."
"""The prefix of the table's properties that have the newest number of a sequence."""
_NAME_MAPPING: Final = TableProperties.DEFAULT_NAME_MAPPING
_WRITTEN_VERSIONS: Final = (1, 2)
"""The versions of the format that PyIceberg writes."""
_TO_OBSTORE: Final = {
    "s3.endpoint": "aws_endpoint_url",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.region": "aws_region",
    "client.access-key-id": "aws_access_key_id",
    "client.secret-access-key": "aws_secret_access_key",
    "client.session-token": "aws_session_token",
    "client.region": "aws_region",
    "s3.force-virtual-addressing": "aws_virtual_hosted_style_request",
    "s3.proxy-uri": "proxy_url",
    "s3.anonymous": "aws_skip_signature",
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_key",
    "adls.tenant-id": "azure_storage_tenant_id",
    "adls.client-id": "azure_storage_client_id",
    "adls.client-secret": "azure_storage_client_secret",
}
"""PyIceberg's configuration of object storage in obstore's names; the first of several counts."""


class OpenIcebergTable(OpenTable):
    """An Iceberg table at the snapshot that its branch `main` had when it was opened."""

    keeps_partition_columns = True

    def __init__(self, table: Table, name: str) -> None:
        self.table = table
        self.name = name
        self._metadata = table.metadata
        self._snapshot = table.metadata.snapshot_by_name(MAIN)
        self.version = str(self._snapshot.snapshot_id) if self._snapshot else ""
        self.storage = _storage(table, name)

    @cached_property
    def schema(self) -> StructType:  # type: ignore[override]
        return spark_schema(self._metadata.schema())

    @cached_property
    def partition_by(self) -> tuple[PartitionColumn, ...]:  # type: ignore[override]
        schema = self._metadata.schema()
        return tuple(
            PartitionColumn(schema.find_column_name(field.source_id) or "", str(field.transform))
            for field in self._metadata.spec().fields
            if not isinstance(field.transform, VoidTransform)
        )

    def check_appendable(self) -> None:
        version = self._metadata.format_version
        if version not in _WRITTEN_VERSIONS:
            raise NotSupported(
                f"{self.name} has version {version} of Iceberg's format, which PyIceberg does not "
                "write",
                hint="use a table with format-version 2",
            )
        if self._metadata.properties.get("encryption.key-id"):
            raise NotSupported(
                f"{self.name} is encrypted, which is not supported",
                hint="use a table without encryption.key-id",
            )
        kinds = {field.name: field.field_type for field in self._metadata.schema().fields}
        for column in self.partition_by:
            parsed_transform(column)
            kind = kinds.get(column.name)
            if kind is None or isinstance(kind, UNPARTITIONABLE):
                why = "inside of a column" if kind is None else f"of the type {kind}"
                raise NotSupported(
                    f"{self.name} is partitioned by `{column.name}`, which is {why}",
                    hint="use a table with another partitioning",
                )

    def newest(self, sequence: str) -> int | None:
        numbers = [stamp.number for _, stamp in self._stamps if stamp.sequence == sequence]
        kept = _kept_number(self._metadata, sequence, self.name)
        return max(numbers if kept is None else [*numbers, kept], default=None)

    def commit_of(self, identity: Identity) -> Found | None:
        for snapshot, stamp in reversed(self._stamps):
            if (stamp.sequence, stamp.number) == (identity.sequence, identity.number):
                contained = self._contains(snapshot, stamp)
                if contained is None:
                    return Found("", None)
                return Found(str(snapshot.snapshot_id), stamp, is_undone=not contained)
        newest = self.newest(identity.sequence)
        if newest is None or newest < identity.number:
            return None
        if newest > identity.number and not self._has_expired:
            return None
        return Found("", None)

    def append(self, files: Sequence[DataFile], stamp: Stamp) -> str:
        newest = self.newest(stamp.sequence)
        if newest is not None and newest >= stamp.number:
            found = self.commit_of(stamp.identity)
            if not (newest == stamp.number and found is not None and found.is_undone):
                raise CommitConflict(
                    f"{self.name} has commit {newest} of {stamp.sequence} already",
                    hint="open the table again and look",
                )
        schema, spec = self._metadata.schema(), self._metadata.spec()
        entries = ManifestEntries(schema, spec, self._metadata.properties, self._metadata.location)
        made = [entries.entry(file) for file in files]
        properties = {f"{SEQUENCE}{stamp.sequence}": str(stamp.number)}
        if entries.has_ids is False:
            properties.update(self._name_mapping())
        summary = {STAMP: msgspec.json.encode(stamp).decode()}
        with translated(f"write the metadata of {self.name}"):
            transaction = self.table.transaction()
            transaction.set_properties(properties)
            producer = transaction._append_snapshot_producer(summary, branch=MAIN)
            for entry in made:
                producer.append_data_file(entry)
            producer.commit()
        requirements = (
            _Unchanged(self._metadata, stamp.sequence, self.name),
            AssertTableUUID(uuid=self._metadata.table_uuid),
            AssertCurrentSchemaId.model_validate({"current-schema-id": schema.schema_id}),
            AssertDefaultSpecId.model_validate({"default-spec-id": spec.spec_id}),
        )
        self._commit(transaction._updates, requirements, transaction, producer.snapshot_id)
        return str(producer.snapshot_id)

    def add_columns(self, columns: StructType) -> None:
        present = {field.name for field in self._metadata.schema().fields}
        added = [field for field in columns if field.name not in present]
        if not added:
            return
        types = [iceberg_type(field.dataType, field.name) for field in added]
        with translated(f"add columns to {self.name}"):
            transaction = self.table.transaction()
            with transaction.update_schema() as update:
                for field, kind in zip(added, types, strict=True):
                    update.add_column((field.name,), kind)
        requirements = (
            *transaction._requirements,
            AssertTableUUID(uuid=self._metadata.table_uuid),
        )
        self._commit(transaction._updates, requirements, transaction, None)

    def _commit(
        self,
        updates: tuple[TableUpdate, ...],
        requirements: tuple[TableRequirement, ...],
        transaction: Transaction,
        snapshot_id: int | None,
    ) -> None:
        """Send a commit once. `Transaction.commit_transaction` would send an append again, on top
        of whatever has been committed meanwhile."""
        try:
            self.table._do_commit(updates, requirements)
        except CommitFailedException as error:
            if snapshot_id is not None and self._has_landed(snapshot_id):
                return
            for producer in transaction._snapshot_producers:
                producer._clean_all_uncommitted()
            raise CommitConflict(
                f"{self.name} was changed by another commit: {described(error)}",
                hint="open the table again and look",
            ) from error
        except Exception as error:
            raise self._unknown(error) from error

    def _unknown(self, error: Exception) -> UnknownOutcome:
        return UnknownOutcome(
            f"it is unknown whether {self.name} has the commit: {described(error)}",
            hint="open the table again and look",
        )

    def _has_landed(self, snapshot_id: int) -> bool:
        """Return whether the table has a commit that was refused: a request that was sent twice,
        by a proxy for example, is refused the second time. Raise UnknownOutcome if that cannot be
        found out."""
        try:
            now = self.table.catalog.load_table(self.table.name())
        except NoSuchTableError:
            return False
        except Exception as error:
            raise self._unknown(error) from error
        return now.metadata.snapshot_by_id(snapshot_id) is not None

    @cached_property
    def _stamps(self) -> list[tuple[Snapshot, Stamp]]:
        """The snapshots that appends have made, in the order of their commits."""
        return list(self._stamped(sorted(self._metadata.snapshots, key=_order)))

    def _stamped(self, snapshots: Sequence[Snapshot]) -> Iterator[tuple[Snapshot, Stamp]]:
        for snapshot in snapshots:
            text = snapshot.summary.get(STAMP) if snapshot.summary else None
            if text is None:
                continue
            try:
                yield snapshot, msgspec.json.decode(text, type=Stamp)
            except msgspec.MsgspecError:
                raise TableChanged(
                    f"snapshot {snapshot.snapshot_id} of {self.name} has the property {STAMP}, "
                    f"which cannot be read: {text[:80]}",
                    hint="upgrade Holdfast if a later version has written it",
                ) from None

    @cached_property
    def _lineage(self) -> list[Snapshot]:
        """The snapshot and its ancestors, the newest first, as far as they are known."""
        by_id = {one.snapshot_id: one for one in self._metadata.snapshots}
        found, next_one = [], self._snapshot
        while next_one is not None:
            found.append(next_one)
            next_one = by_id.pop(next_one.parent_snapshot_id or -1, None)
        return found

    @property
    def _has_expired(self) -> bool:
        """Whether snapshots may be missing. Each has the next sequence number, unless the table has
        or had version 1 of the format."""
        snapshots = self._metadata.snapshots
        numbers = {one.sequence_number for one in snapshots}
        parents = {one.parent_snapshot_id for one in snapshots} - {None}
        known = {one.snapshot_id for one in snapshots}
        last = getattr(self._metadata, "last_sequence_number", None)
        return last is None or numbers != set(range(1, last + 1)) or not parents <= known

    def _contains(self, snapshot: Snapshot, stamp: Stamp) -> bool | None:
        """Return whether the table contains the rows of a snapshot: whether it is an ancestor.

        None if snapshots in between are expired, and no file of it is left to prove it.
        """
        if any(one.snapshot_id == snapshot.snapshot_id for one in self._lineage):
            return True
        if not self._lineage or not self._has_expired:
            return False
        oldest = self._lineage[-1]
        if _order(oldest) < _order(snapshot):
            return False  # the ancestors go back beyond it
        return True if self._names_files_below(stamp.place, oldest) else None

    def _names_files_below(self, place: str, snapshot: Snapshot) -> bool:
        start = f"{self._metadata.location.rstrip('/')}/{place}/"
        io = self.table.io
        with translated(f"read the manifests of {self.name}"):
            return any(
                entry.data_file.file_path.startswith(start)
                for one in snapshot.manifests(io)
                for entry in one.fetch_manifest_entry(io)
                if entry.status != ManifestEntryStatus.DELETED
            )

    def _name_mapping(self) -> dict[str, str]:
        """Return the property by which readers find columns of files without ids, if the table
        does not have it yet. Raise NotSupported if it has one that names columns in another way."""
        ours = self._metadata.schema().name_mapping
        text = self._metadata.properties.get(_NAME_MAPPING)
        if text is None:
            return {_NAME_MAPPING: ours.model_dump_json()}
        theirs = parse_mapping_from_json(text)._field_by_name
        for path, field in ours._field_by_name.items():
            found = theirs.get(path)
            if found is None or found.field_id != field.field_id:
                raise NotSupported(
                    f"the property {_NAME_MAPPING} of {self.name} does not have the column `{path}`"
                    f" as field {field.field_id}, so readers would not find it in new files",
                    hint="correct the property; it lists the name and id of every column",
                )
        return {}


class _Unchanged(AssertRefSnapshotId):
    """The branch is at the snapshot that was looked at, and no later commit has the sequence.

    A REST catalog checks the snapshot. The others check both in this process: if a table was rolled
    back in between, the snapshot alone would not show a commit.
    """

    _looked: int | None = PrivateAttr()
    _sequence: str = PrivateAttr()
    _name: str = PrivateAttr()

    def __init__(self, metadata: TableMetadata, sequence: str, name: str) -> None:
        snapshot = metadata.snapshot_by_name(MAIN)
        at = snapshot.snapshot_id if snapshot else None
        super().__init__(ref=MAIN, **{"snapshot-id": at})  # type: ignore[arg-type]
        self._looked = _kept_number(metadata, sequence, name)
        self._sequence, self._name = sequence, name

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        super().validate(base_metadata)
        if (
            base_metadata is not None
            and _kept_number(base_metadata, self._sequence, self._name) != self._looked
        ):
            raise CommitFailedException(f"{self._sequence} has another commit")


def _order(snapshot: Snapshot) -> tuple[int, int]:
    """Return what orders commits. Those of version 1 of the format have no sequence numbers."""
    return snapshot.sequence_number or 0, snapshot.timestamp_ms


def _kept_number(metadata: TableMetadata, sequence: str, name: str) -> int | None:
    text = metadata.properties.get(f"{SEQUENCE}{sequence}")
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise TableChanged(
            f"the property {SEQUENCE}{sequence} of {name} is {text!r}, which is not a number",
            hint="set it to the number of the newest load that the table has",
        ) from None


def _storage(table: Table, name: str) -> Storage:
    """Return where executors find the table's files. Raise InvalidInput for a local path that is
    relative, or that PyIceberg misreads."""
    location = table.metadata.location.rstrip("/")
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        path = location.removeprefix("file:")
        if path.startswith("//"):
            path = f"/{path[2:].partition('/')[2]}"
        if not os.path.isabs(path):
            raise InvalidInput(
                f"{name} is at {location}, which is not an absolute path",
                hint="set the catalog's `warehouse` to one: file:///lake",
            )
        if parts.query or parts.fragment:
            raise InvalidInput(
                f"{name} is at {location}, which PyIceberg reads as a URL with a query or a "
                "fragment",
                hint="create it below a directory without `?` and `#` in its path",
            )
        return Storage(path, {})
    return Storage(location, _options(table.io.properties))


def _options(properties: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for theirs, ours in _TO_OBSTORE.items():
        if (value := properties.get(theirs)) is not None:
            found.setdefault(ours, str(value))
    return found
