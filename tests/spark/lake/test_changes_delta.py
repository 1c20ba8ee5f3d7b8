"""What was appended to a Delta table between two versions, by its log."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType, Schema
from deltalake.transaction import AddAction
from pyroaring import BitMap

from holdfast.errors import BackendFailed, InvalidInput, NotSupported, TableChanged
from holdfast.spark.lake import changes
from holdfast.spark.lake.changes import Position
from holdfast.spark.lake.delta import delta
from holdfast.spark.lake.delta_history import DeltaHistory


@dataclass
class Table:
    """A Delta table of a test, in a local directory."""

    path: Path

    def write(self, *ids: int, **options: Any) -> int:
        rows = pa.table({"id": pa.array(ids, pa.int64()), "odd": [str(id % 2) for id in ids]})
        write_deltalake(self.path, rows, mode=options.pop("mode", "append"), **options)
        return self.version

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(self.path)

    @property
    def version(self) -> int:
        return self.delta.version()

    @property
    def history(self) -> DeltaHistory:
        return DeltaHistory(delta(self.path))

    def at(self, version: int) -> Position:
        return self.history.find(version)

    def appended(self, after: Position | int, to: int | None = None, **options: Any) -> list[int]:
        """Return the ids in the files that were appended."""
        since = self.at(after) if isinstance(after, int) else after
        last = self.version if to is None else to
        found = changes.appended(self.history, since, self.at(last), **options)
        return ids(self.path, [file.path for file in found.files])

    def commit(self, version: int) -> Path:
        return self.path / "_delta_log" / f"{version:020}.json"


def ids(location: Path, paths: list[str]) -> list[int]:
    files = [str(location / path) for path in paths]
    if not files:
        return []
    return sorted(ds.dataset(files).to_table(columns=["id"])["id"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table(tmp_path / "table")
    made.write(1, 2)
    return made


def test_what_was_appended_after_a_version_is_found(table: Table) -> None:
    table.write(3, 4)
    table.write(5)
    assert table.appended(0) == [3, 4, 5]
    assert table.appended(1) == [5]
    assert table.appended(0, 1) == [3, 4]
    assert table.appended(2) == []


def test_the_number_of_appended_rows_is_known_from_the_log(table: Table) -> None:
    table.write(3, 4)
    assert changes.appended(table.history, table.at(0), table.at(1)).rows == 2


def test_all_files_of_a_version_are_found(table: Table) -> None:
    table.write(3)
    found = table.history.files(table.at(1))
    assert ids(table.path, [file.path for file in found]) == [1, 2, 3]
    assert ids(table.path, [file.path for file in table.history.files(table.at(0))]) == [1, 2]
    assert changes.rows_of(found) == 3


def test_compaction_is_skipped(table: Table) -> None:
    table.write(3)
    table.write(4)
    table.delta.optimize.compact()
    table.write(5)
    assert table.appended(1) == [4, 5]


def test_a_z_order_is_skipped(table: Table) -> None:
    table.write(4)
    table.delta.optimize.z_order(["id"])
    assert table.appended(0) == [4]


def test_files_that_were_compacted_and_then_vacuumed_are_an_error(table: Table) -> None:
    table.write(3)
    table.delta.optimize.compact()
    table.delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(TableChanged, match="compacted and then deleted"):
        table.appended(0)
    assert table.appended(2) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.delta.delete("id = 1"),
        lambda table: table.delta.update(updates={"odd": "'x'"}, predicate="id = 1"),
        lambda table: table.write(9, mode="overwrite"),
        lambda table: table.write(9, mode="overwrite", predicate="id = 9 or odd = '1'"),
    ],
    ids=["delete", "update", "overwrite", "overwrite where"],
)
def test_a_change_of_rows_is_an_error(table: Table, change: Callable[[Table], Any]) -> None:
    table.write(3)
    change(table)
    with pytest.raises(TableChanged, match="version 2 .* changed or removed rows"):
        table.appended(1)
    assert table.appended(0, 1) == [3]


def merge(table: Table, *ids: int) -> Any:
    rows = pa.table({"id": pa.array(ids, pa.int64()), "odd": ["m" for _ in ids]})
    return table.delta.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")


def test_a_merge_that_only_inserts_is_an_append(table: Table) -> None:
    merge(table, 2, 3).when_not_matched_insert_all().execute()
    assert table.appended(0) == [3]


def test_a_merge_that_updates_is_an_error(table: Table) -> None:
    merge(table, 2, 3).when_matched_update_all().when_not_matched_insert_all().execute()
    with pytest.raises(TableChanged, match="MERGE"):
        table.appended(0)


def test_a_restored_table_is_an_error(table: Table) -> None:
    table.write(3)
    table.delta.restore(0)
    with pytest.raises(TableChanged, match=r"version 2 .*RESTORE"):
        table.appended(1)


def test_a_restore_that_only_brings_rows_back_is_an_append(table: Table) -> None:
    table.delta.delete()
    table.delta.restore(0)
    assert table.appended(1) == [1, 2]


def test_changes_of_properties_and_columns_are_skipped(table: Table) -> None:
    table.delta.alter.set_table_properties({"delta.appendOnly": "false"})
    table.delta.alter.add_columns([Field("more", PrimitiveType("long"))])
    table.delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert table.appended(0) == []
    assert table.history.layout(table.at(0)).schema.names == ["id", "odd"]
    assert table.history.layout(table.at(2)).schema.names == ["id", "odd", "more"]


def test_commits_are_read_from_the_log_after_a_checkpoint(table: Table) -> None:
    table.write(3)
    table.delta.create_checkpoint()
    table.write(4)
    assert table.appended(0) == [3, 4]


def test_a_log_that_was_cleaned_up_is_an_error_only_for_commits_that_were_not_read(
    table: Table,
) -> None:
    loaded = [table.at(0), table.at(table.write(3)), table.at(table.write(4))]
    table.delta.create_checkpoint()
    table.commit(0).unlink()
    table.commit(1).unlink()
    with pytest.raises(TableChanged, match="no longer has the version 1"):
        table.appended(loaded[0])
    assert table.appended(loaded[1]) == [4]


def test_a_table_that_was_deleted_and_created_again_is_an_error(table: Table) -> None:
    table.write(3)
    loaded = table.at(1)
    rmtree(table.path)
    table.write(1)
    table.write(2)
    table.write(3)
    with pytest.raises(TableChanged, match="deleted or replaced, and created again"):
        table.appended(loaded)


def test_a_table_that_was_replaced_is_an_error(table: Table) -> None:
    loaded = table.at(0)
    schema = Schema.from_arrow(pa.schema([("id", pa.int64())]))
    DeltaTable.create(table.path, schema, mode="overwrite")
    with pytest.raises(TableChanged, match="created again"):
        table.appended(loaded)


def test_a_log_that_was_restored_from_a_copy_is_an_error(table: Table, tmp_path: Path) -> None:
    copytree(table.path, tmp_path / "copy")
    loaded = table.at(table.write(3))
    rmtree(table.path)
    copytree(tmp_path / "copy", table.path)
    with pytest.raises(TableChanged, match="has the version 0"):
        table.appended(loaded, 0)
    table.write(4)
    table.write(5)
    with pytest.raises(TableChanged, match="is not the one that the last load read"):
        table.appended(loaded)


def test_a_version_that_was_set_by_hand_is_not_verified(table: Table) -> None:
    table.write(3)
    assert table.appended(Position(0)) == [3]


def test_a_version_that_does_not_exist_is_an_error(table: Table) -> None:
    with pytest.raises(InvalidInput, match="has no version 7\nhint: its newest version is 0"):
        table.at(7)


def test_a_commit_that_says_that_it_changes_no_rows_is_skipped(table: Table) -> None:
    name = "data/same.parquet"
    (table.path / "data").mkdir()
    pq.write_table(pa.table({"id": [1, 2], "odd": ["1", "0"]}), table.path / name)
    size = (table.path / name).stat().st_size
    table.delta.create_write_transaction(
        [AddAction(name, size, {}, 0, False, "{}")], "append", table.delta.schema()
    )
    assert table.appended(0) == []


def test_rows_whose_number_is_unknown_end_a_portion(table: Table) -> None:
    name = "plain.parquet"
    pq.write_table(pa.table({"id": [7], "odd": ["1"]}), table.path / name)
    size = (table.path / name).stat().st_size
    table.delta.create_write_transaction(
        [AddAction(name, size, {}, 0, True, "{}")], "append", table.delta.schema()
    )
    table.write(8)
    assert table.appended(0, max_rows=100) == [7]


def test_a_portion_ends_with_the_commit_that_fills_it(table: Table) -> None:
    for id in range(10, 60):
        table.write(id)
    assert table.appended(0, max_rows=20) == list(range(10, 30))
    assert table.appended(40, max_rows=20) == list(range(50, 60))


def test_a_change_after_a_portion_is_not_reached(table: Table) -> None:
    table.write(3)
    table.delta.delete("id = 1")
    assert table.appended(0, max_rows=1) == [3]


def test_partition_values_are_those_of_the_log(tmp_path: Path) -> None:
    moment = datetime(1960, 1, 1, 1, 2, 3, 4, tzinfo=UTC)
    columns = {
        "id": [1, 2, 3],
        "text": ["a/b %c~ü", "", None],
        "day": [date(1960, 1, 1), None, date(2020, 1, 2)],
        "at": pa.array([moment, None, None], pa.timestamp("us", "UTC")),
        "local": pa.array([moment.replace(tzinfo=None), None, None], pa.timestamp("us")),
        "amount": pa.array([Decimal("1.50"), None, None], pa.decimal128(5, 2)),
        "yes": [True, None, False],
    }
    table = Table(tmp_path / "table")
    rows = pa.table(columns)
    by = rows.column_names[1:]
    write_deltalake(table.path, rows.slice(0, 0), partition_by=by)
    write_deltalake(table.path, rows, mode="append")
    found = changes.appended(table.history, table.at(0), table.at(1)).files
    [first] = [file for file in found if file.values["yes"] == "true"]
    assert first.values["text"] == "a/b %c~ü"
    assert first.values["day"] == "1960-01-01"
    assert first.values["amount"] == "1.50"
    assert [file.values["text"] for file in found if file is not first] == [None, None]
    whole = table.history.files(table.at(1))
    assert sorted(file.path for file in whole) == sorted(file.path for file in found)
    assert all((table.path / file.path).is_file() for file in found)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_have_other_names_in_the_files(tmp_path: Path, mode: str) -> None:
    table = Table(tmp_path / "table")
    DeltaTable.create(
        table.path,
        Schema.from_arrow(pa.schema([("id", pa.int64()), ("odd", pa.string())])),
        configuration={"delta.columnMapping.mode": mode},
        partition_by=["odd"],
    )
    table.write(1, 2)
    layout = table.history.layout(table.at(1))
    assert layout.schema.names == ["id", "odd"]
    [first, second] = layout.stored.names
    assert first.startswith("col-")
    appended = changes.appended(table.history, table.at(0), table.at(1)).files
    whole = table.history.files(table.at(1))
    assert {file.values[second] for file in appended} == {"0", "1"}
    assert {file.values[second] for file in whole} == {"0", "1"}
    assert layout.stored[0].metadata == ({"parquet.field.id": 1} if mode == "id" else {})


def delete_by_vector(table: Table, *positions: int) -> None:
    """Delete rows of the table's only file as other engines do, which deltalake cannot."""
    [file] = table.history.files(table.at(table.version))
    bitmap = BitMap(positions).serialize()
    content = struct.pack("<iqi", 1681511377, 1, 0) + bitmap
    content += bytes(-len(content) % 4)
    vector = {
        "storageType": "i",
        "pathOrInlineDv": z85(content),
        "sizeInBytes": len(content),
        "cardinality": len(positions),
    }
    common = {"path": quote(file.path), "partitionValues": {}, "size": file.size}
    add = common | {"modificationTime": 0, "dataChange": True, "deletionVector": vector}
    add["stats"] = json.dumps({"numRecords": file.rows})
    remove = common | {"deletionTimestamp": 0, "dataChange": True}
    actions = [{"commitInfo": {"operation": "DELETE"}}, {"remove": remove}, {"add": add}]
    text = "".join(json.dumps(action) + "\n" for action in actions)
    table.commit(table.version + 1).write_text(text)


def z85(content: bytes) -> str:
    characters = (
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    )
    numbers = struct.unpack(f">{len(content) // 4}I", content)
    return "".join(characters[n // 85**at % 85] for n in numbers for at in range(4, -1, -1))


@pytest.fixture
def deleting(tmp_path: Path) -> Table:
    """Return a table whose rows are deleted with deletion vectors."""
    table = Table(tmp_path / "deleting")
    DeltaTable.create(
        table.path,
        Schema.from_arrow(pa.schema([("id", pa.int64()), ("odd", pa.string())])),
        configuration={"delta.enableDeletionVectors": "true"},
    )
    table.write(1, 2, 3)
    delete_by_vector(table, 1)
    return table


def test_a_deletion_vector_is_a_change(deleting: Table) -> None:
    with pytest.raises(TableChanged, match=r"version 2 .*DELETE"):
        deleting.appended(1)
    assert deleting.appended(0, 1) == [1, 2, 3]


def test_a_version_with_deletion_vectors_is_refused_as_a_whole(deleting: Table) -> None:
    with pytest.raises(NotSupported, match="deletion vectors"):
        deleting.history.files(deleting.at(2))


def test_what_is_appended_beside_deletion_vectors_is_found(deleting: Table) -> None:
    deleting.write(4)
    assert deleting.appended(2) == [4]


def test_a_version_whose_log_was_cleaned_up_cannot_be_read(table: Table) -> None:
    table.write(3)
    table.delta.create_checkpoint()
    table.commit(0).unlink()
    with pytest.raises(InvalidInput, match="no longer has the version 0"):
        table.at(0)


def test_a_damaged_commit_is_an_error(table: Table) -> None:
    history, before = table.history, table.at(0)
    table.commit(1).write_text('{"add": 7}\n')
    with pytest.raises(BackendFailed, match="the commit 1 .* cannot be read"):
        list(history.steps(before, Position(1)))
