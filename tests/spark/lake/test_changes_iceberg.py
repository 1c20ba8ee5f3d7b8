"""What was appended to an Iceberg table between two snapshots, by its manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from icebergs import opened, stamp, written
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestWriterV2
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as Library
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import NestedField, StringType, TimestamptzType, TimeType

from holdfast.errors import BackendFailed, InvalidInput, NotSupported, TableChanged
from holdfast.spark.lake import changes
from holdfast.spark.lake.changes import Position
from holdfast.spark.lake.iceberg import iceberg
from holdfast.spark.lake.iceberg_history import IcebergHistory
from holdfast.spark.lake.table_reader import history_of


@dataclass
class Table:
    """An Iceberg table of a test."""

    catalog: Catalog
    properties: dict[str, str]
    identifier: str = "sales.orders"

    @property
    def library(self) -> Library:
        return self.catalog.load_table(self.identifier)

    @property
    def history(self) -> IcebergHistory:
        found = history_of(iceberg(self.identifier, catalog=self.properties))
        assert isinstance(found, IcebergHistory)
        return found

    @property
    def newest(self) -> Position:
        found = self.history.newest()
        assert found is not None
        return found

    def append(self, *ids: int) -> Position:
        self.library.append(rows(*ids))
        return self.newest

    def appended(self, after: Position, to: Position | None = None, **options: Any) -> list[int]:
        """Return the ids in the files that were appended."""
        found = changes.appended(self.history, after, to or self.newest, **options)
        return ids([file.path for file in found.files])

    def compact(self) -> None:
        """Write all rows into one file, in the way of a compaction."""
        library = self.library
        content = library.scan().to_arrow().cast(schema_to_pyarrow(library.schema()))
        path = f"{library.location()}/data/{uuid4().hex}.parquet"
        pq.write_table(content, path.removeprefix("file://"))
        with library.transaction() as transaction:
            file = parquet_file_to_data_file(library.io, library.metadata, path)
            with transaction.update_snapshot().overwrite() as replacing:
                replacing._operation = Operation.REPLACE
                replacing._summary = lambda *_: Summary(Operation.REPLACE)  # type: ignore[method-assign]
                replacing.append_data_file(file)
                for task in library.scan().plan_files():
                    replacing.delete_data_file(task.file)


def rows(*ids: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "odd": pa.array([str(id % 2) for id in ids], pa.string())}
    )


def ids(paths: list[str]) -> list[int]:
    if not paths:
        return []
    return sorted(ds.dataset(paths).to_table(columns=["id"])["id"].to_pylist())


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }


@pytest.fixture
def catalog(properties: dict[str, str], tmp_path: Path) -> Iterator[Catalog]:
    (tmp_path / "warehouse").mkdir()
    with load_catalog("default", **properties) as catalog:
        catalog.create_namespace("sales")
        yield catalog


@pytest.fixture
def table(catalog: Catalog, properties: dict[str, str]) -> Table:
    catalog.create_table("sales.orders", rows().schema)
    return Table(catalog, properties)


def test_what_was_appended_after_a_snapshot_is_found(table: Table) -> None:
    first = table.append(1, 2)
    second = table.append(3, 4)
    table.append(5)
    assert table.appended(first) == [3, 4, 5]
    assert table.appended(second) == [5]
    assert table.appended(first, second) == [3, 4]
    assert table.appended(table.newest) == []


def test_the_number_of_appended_rows_is_known_from_manifests(table: Table) -> None:
    first = table.append(1)
    table.append(2, 3)
    assert changes.appended(table.history, first, table.newest).rows == 2


def test_a_table_without_a_snapshot_has_no_version(table: Table) -> None:
    assert table.history.newest() is None
    assert table.history.layout(None).schema.names == ["id", "odd"]


def test_all_files_of_a_snapshot_are_found(table: Table) -> None:
    first = table.append(1, 2)
    second = table.append(3)
    assert ids([file.path for file in table.history.files(first)]) == [1, 2]
    assert ids([file.path for file in table.history.files(second)]) == [1, 2, 3]


def test_manifests_that_an_append_merges_are_not_appended_again(table: Table) -> None:
    merging = {
        "commit.manifest-merge.enabled": "true",
        "commit.manifest.min-count-to-merge": "2",
    }
    with table.library.transaction() as transaction:
        transaction.set_properties(merging)
    positions = [table.append(id) for id in range(6)]
    assert len(table.library.current_snapshot().manifests(table.library.io)) < 6  # type: ignore[union-attr]
    assert table.appended(positions[0]) == [1, 2, 3, 4, 5]
    assert table.appended(positions[4]) == [5]


def test_compaction_is_skipped(table: Table) -> None:
    first = table.append(1)
    table.append(2)
    table.compact()
    table.append(3)
    assert table.appended(first) == [2, 3]
    assert ids([file.path for file in table.history.files(table.newest)]) == [1, 2, 3]


def test_a_change_of_properties_or_columns_makes_no_snapshot(table: Table) -> None:
    first = table.append(1)
    with table.library.update_schema() as update:
        update.add_column("more", StringType())
    assert table.appended(first) == []
    table.library.append(rows(2).append_column("more", pa.array(["x"])))
    assert table.appended(first) == [2]
    assert table.history.layout(first).schema.names == ["id", "odd"]
    assert table.history.layout(table.newest).schema.names == ["id", "odd", "more"]


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.library.delete("id = 1"),
        lambda table: table.library.delete("id > 0"),
        lambda table: table.library.overwrite(rows(9)),
        lambda table: table.library.overwrite(rows(9), "id = 1"),
    ],
    ids=["delete rows", "delete files", "overwrite", "overwrite where"],
)
def test_a_change_of_rows_is_an_error(table: Table, change: Callable[[Table], Any]) -> None:
    first = table.append(1, 2)
    second = table.append(3)
    change(table)
    with pytest.raises(TableChanged, match="changed or removed rows"):
        table.appended(second)
    assert table.appended(first, second) == [3]


def test_an_overwrite_that_removes_nothing_is_an_append(table: Table) -> None:
    first = table.append(1)
    with pytest.warns(UserWarning, match="did not match"):
        table.library.overwrite(rows(2), "id = 2")
    assert table.appended(first) == [2]


def test_a_rollback_past_the_last_load_is_an_error(table: Table) -> None:
    first = table.append(1)
    second = table.append(2)
    table.library.manage_snapshots().rollback_to_snapshot(first.version).commit()
    with pytest.raises(TableChanged, match="was rolled back"):
        table.appended(second)
    table.append(3)
    with pytest.raises(TableChanged, match="was rolled back"):
        table.appended(second)
    assert table.appended(first) == [3]


def test_snapshots_that_were_rolled_back_are_not_read(table: Table) -> None:
    first = table.append(1)
    undone = table.append(2)
    table.library.manage_snapshots().rollback_to_snapshot(first.version).commit()
    with pytest.raises(InvalidInput, match="in its main branch"):
        table.history.find(undone.version)


def test_expired_snapshots_that_were_not_read_are_an_error(table: Table) -> None:
    positions = [table.append(id) for id in range(4)]
    table.library.maintenance.expire_snapshots().by_id(positions[1].version).commit()
    with pytest.raises(TableChanged, match="are not all known any more: some are expired"):
        table.appended(positions[0])
    assert table.appended(positions[2]) == [3]
    with pytest.raises(InvalidInput, match="or no longer"):
        table.history.find(positions[1].version)


def test_the_snapshot_of_the_last_load_may_be_expired_if_the_next_one_names_it(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = [table.append(id) for id in range(3)]
    history = table.history
    metadata = history._table.metadata
    kept = [one for one in metadata.snapshots if one.snapshot_id != positions[0].version]
    history._table.metadata = metadata.model_copy(update={"snapshots": kept})
    found = changes.appended(history, positions[0], positions[2])
    assert ids([file.path for file in found.files]) == [1, 2]


def test_a_table_that_was_dropped_and_created_again_is_an_error(table: Table) -> None:
    loaded = table.append(1)
    table.catalog.drop_table("sales.orders")
    table.catalog.create_table("sales.orders", rows().schema)
    table.append(1)
    with pytest.raises(TableChanged, match="deleted, and created again"):
        table.appended(loaded)


def test_a_snapshot_that_was_set_by_hand_is_not_verified(table: Table) -> None:
    first = table.append(1)
    table.append(2)
    assert table.appended(Position(first.version)) == [2]


def test_a_portion_ends_with_the_snapshot_that_fills_it(table: Table) -> None:
    first = table.append(1)
    table.append(2, 3)
    table.append(4)
    assert table.appended(first, max_rows=2) == [2, 3]
    assert table.appended(first, max_rows=3) == [2, 3, 4]


def test_commits_to_other_branches_are_not_read(table: Table) -> None:
    first = table.append(1)
    table.library.manage_snapshots().create_branch(first.version, "trial").commit()
    table.library.append(rows(7), branch="trial")
    assert table.appended(first) == []


def delete_by_position(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete the first row of a file in the way of other engines, which PyIceberg cannot."""
    library = table.library
    [task, *_] = library.scan().plan_files()
    deleted = pa.table({"file_path": [task.file.file_path], "pos": pa.array([0], pa.int64())})
    path = f"{library.location()}/data/deletes.parquet"
    pq.write_table(deleted, path.removeprefix("file://"))
    deletes = copy(task.file)
    deletes._data = list(task.file._data)
    deletes._data[:2] = [DataFileContent.POSITION_DELETES, path]
    with monkeypatch.context() as patch:
        patch.setattr(ManifestWriterV2, "content", lambda self: ManifestContent.DELETES)
        transaction = library.transaction()
        with transaction.update_snapshot().fast_append() as appending:
            appending._operation = Operation.OVERWRITE
            appending._summary = lambda *_: Summary(Operation.OVERWRITE)  # type: ignore[method-assign]
            appending.append_data_file(deletes)
        transaction.commit_transaction()


def test_row_level_deletes_are_a_change_and_refused_as_a_whole(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = table.append(1, 2)
    delete_by_position(table, monkeypatch)
    with pytest.raises(TableChanged, match="changed or removed rows"):
        table.appended(first)
    with pytest.raises(NotSupported, match="row-level deletes"):
        table.history.files(table.newest)
    deleted = table.newest
    table.append(3)
    assert table.appended(deleted) == [3]


def test_renamed_columns_keep_their_ids(table: Table) -> None:
    table.append(1)
    with table.library.update_schema() as update:
        update.rename_column("odd", "parity")
    layout = table.history.layout(None)
    assert layout.schema.names == ["id", "parity"]
    assert [field.metadata for field in layout.stored] == [
        {"parquet.field.id": 1},
        {"parquet.field.id": 2},
    ]


def test_identity_partition_values_are_those_of_the_manifests(
    catalog: Catalog, properties: dict[str, str]
) -> None:
    moment = datetime(1960, 1, 1, 1, 2, 3, 4, tzinfo=UTC)
    content = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "day": pa.array([date(1960, 1, 1), None], pa.date32()),
            "at": pa.array([moment, None], pa.timestamp("us", "UTC")),
            "amount": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
            "text": ["a/b %c", ""],
        }
    )
    made = catalog.create_table("sales.days", content.schema)
    with made.update_spec() as update:
        for name in ("day", "at", "amount", "text"):
            update.add_identity(name)
    made.append(content)
    table = Table(catalog, properties, "sales.days")
    values = [file.values for file in table.history.files(table.newest)]
    assert {"day": None, "at": None, "amount": None, "text": ""} in values
    assert {
        "day": "1960-01-01",
        "at": "1960-01-01T01:02:03.000004Z",
        "amount": "1.50",
        "text": "a/b %c",
    } in values


def test_hidden_partition_values_are_not_those_of_a_column(
    catalog: Catalog, properties: dict[str, str]
) -> None:
    schema = Schema(NestedField(1, "at", TimestamptzType()), NestedField(2, "kind", StringType()))
    spec = PartitionSpec(
        PartitionField(1, 1000, DayTransform(), "at_day"),
        PartitionField(2, 1001, IdentityTransform(), "kind"),
    )
    catalog.create_table("sales.events", schema, partition_spec=spec)
    now = opened(iceberg("sales.events", catalog=properties))
    content = {"at": pa.array([0], pa.timestamp("us", "UTC")), "kind": ["x"]}
    now.append(written(now, pa.record_batch(content), partition=("1970-01-01", "x")), stamp())
    table = Table(catalog, properties, "sales.events")
    [file] = table.history.files(table.newest)
    assert file.values == {"kind": "x"}


def test_a_type_that_spark_does_not_have_is_refused_by_name(
    catalog: Catalog, properties: dict[str, str]
) -> None:
    catalog.create_table("sales.times", Schema(NestedField(1, "noon", TimeType())))
    with pytest.raises(NotSupported, match="`noon`"):
        Table(catalog, properties, "sales.times").history.layout(None)


def test_a_missing_manifest_is_an_error(table: Table, tmp_path: Path) -> None:
    first = table.append(1)
    table.append(2)
    for manifest in (tmp_path / "warehouse").rglob("*-m0.avro"):
        manifest.unlink()
    with pytest.raises(BackendFailed, match="cannot read the Iceberg table sales.orders"):
        table.appended(first)
