"""Files of appends that were never committed: listed and removed, and never a file of a version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from objectserver import ObjectServer, object_server
from pyspark.sql.types import StructType

from holdfast.cli import invoke
from holdfast.errors import InvalidInput
from holdfast.portable.lake.footers import unpacked
from holdfast.portable.lake.storage import open_files
from holdfast.portable.lake.writing import Target, write
from holdfast.spark.lake.delta import delta
from holdfast.spark.lake.iceberg import IcebergTable, iceberg
from holdfast.spark.lake.leftovers import delete_leftovers, leftovers, named_files
from holdfast.spark.lake.table import DataFile, LakeTable, OpenTable, PartitionColumn, Stamp

NOW = timedelta(0)
COLUMNS = StructType().add("id", "long").add("p", "string")


@pytest.fixture(scope="module")
def s3() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


def catalog(directory: Path) -> dict[str, str]:
    return {
        "name": "left",
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"file://{directory}/warehouse",
    }


def orders(directory: Path) -> IcebergTable:
    table = iceberg("sales.orders", catalog=catalog(directory))
    table.catalog().create_namespace("sales")
    return table


@pytest.fixture(params=["delta", "delta on S3", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    """Return an empty table that is partitioned by `p`."""
    lake: LakeTable
    if request.param == "iceberg":
        lake = orders(tmp_path)
    elif request.param == "delta":
        lake = delta(tmp_path / "orders")
    else:
        server: ObjectServer = request.getfixturevalue("s3")
        lake = delta(f"{server.make_bucket()}/orders", storage_options=server.environment)
    lake.create(COLUMNS, [PartitionColumn("p")])
    return lake


def opened(table: LakeTable) -> OpenTable:
    found = table.open()
    assert found is not None
    return found


def attempt(table: LakeTable, *values: str | None) -> list[DataFile]:
    """Write a file for each value as an attempt does, and do not commit."""
    at = opened(table)
    place = f"data-holdfast/load/{uuid4().hex}"
    target = Target(
        *at.storage, place, ("id", "p"), ("p",), keep_partition_columns=at.keeps_partition_columns
    )
    rows = pa.record_batch(
        {"id": range(len(values)), "p": pa.array(values, pa.string())},
        pa.schema({"id": pa.int64(), "p": pa.string()}),
    )
    return [
        DataFile(each["path"], each["size"], tuple(each["partition"]), unpacked(each["footer"]))
        for batch in write(target, [rows])
        for each in batch.to_pylist()
    ]


def commit(table: LakeTable, number: int, files: list[DataFile]) -> None:
    stamp = Stamp("loads", number, uuid4().hex, len(files), os.path.dirname(files[0].path))
    opened(table).append(files, stamp)


def stored(table: LakeTable) -> set[str]:
    return {file.path for file in open_files(*opened(table).storage).list("data-holdfast")}


def paths(files: list[DataFile]) -> set[str]:
    return {file.path for file in files}


def test_only_files_that_were_never_committed_are_removed(table: LakeTable) -> None:
    first, lost = attempt(table, "a/b", None, "ü %"), attempt(table, "x", "y")
    commit(table, 1, first)
    second = attempt(table, "x")
    commit(table, 2, second)

    found = leftovers(table, NOW)
    gone = delete_leftovers(table, found)

    assert {file.path for place in found for file in place.files} == paths(lost)
    assert {file.path for file in gone} == paths(lost)
    assert stored(table) == paths(first) | paths(second) == named_files(table)
    assert leftovers(table, NOW) == []


def test_files_of_a_committed_attempt_that_it_does_not_name_are_leftovers(table: LakeTable) -> None:
    files = attempt(table, "a", "b", "c")
    commit(table, 1, files[:2])

    [place] = leftovers(table, NOW)

    assert ([file.path for file in place.files], place.named) == ([files[2].path], 2)


def test_a_young_attempt_is_left_alone(table: LakeTable) -> None:
    attempt(table, "a")

    assert leftovers(table, timedelta(hours=1)) == []


def test_a_file_that_is_committed_after_the_listing_is_kept(table: LakeTable) -> None:
    late, lost = attempt(table, "a"), attempt(table, "b")
    found = leftovers(table, NOW)
    commit(table, 1, late)

    delete_leftovers(table, found)

    assert len(found) == 2
    assert stored(table) == paths(late) and paths(lost).isdisjoint(stored(table))


def test_files_that_only_an_old_version_names_are_kept(tmp_path: Path) -> None:
    table = delta(tmp_path / "orders")
    table.create(COLUMNS, [])
    files = [attempt_without_partitions(table, number) for number in range(3)]
    for number, file in enumerate(files):
        commit(table, number + 1, [file])
    library = DeltaTable(str(tmp_path / "orders"))
    library.optimize.compact()
    library.create_checkpoint()
    for entry in (tmp_path / "orders/_delta_log").glob("*.json"):
        entry.unlink()

    assert leftovers(table, NOW) == []
    assert named_files(table) == {file.path for file in files}


def attempt_without_partitions(table: LakeTable, number: int) -> DataFile:
    place = f"data-holdfast/load/{uuid4().hex}"
    target = Target(*opened(table).storage, place, ("id", "p"), (), True)
    rows = pa.record_batch({"id": [number], "p": ["x"]})
    [batch] = write(target, [rows])
    [each] = batch.to_pylist()
    return DataFile(each["path"], each["size"], (), unpacked(each["footer"]))


def test_checksums_of_hadoop_stay_with_their_files(tmp_path: Path) -> None:
    table = delta(tmp_path / "orders")
    table.create(COLUMNS, [PartitionColumn("p")])
    kept, lost = attempt(table, "a"), attempt(table, "a")
    commit(table, 1, kept)
    for file in kept + lost:
        directory, name = os.path.split(tmp_path / "orders" / file.path)
        Path(directory, f".{name}.crc").touch()

    delete_leftovers(table, leftovers(table, NOW))

    directory, name = os.path.split(kept[0].path)
    assert stored(table) == {kept[0].path, f"{directory}/.{name}.crc"}
    assert len(list((tmp_path / "orders/data-holdfast/load").iterdir())) == 1


def test_files_outside_of_appends_are_never_looked_at(tmp_path: Path) -> None:
    table = delta(tmp_path / "orders")
    table.create(COLUMNS, [])
    for other in ("other.parquet", "data-holdfast/other.parquet", "data-holdfast/x/other.parquet"):
        (tmp_path / "orders" / other).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "orders" / other).touch()

    assert leftovers(table, NOW) == []


def test_a_directory_without_a_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no table: the Delta table"):
        leftovers(delta(tmp_path / "nothing"), NOW)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs the command, and returns status, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        return (invoke(["state-store", "leftovers", *arguments]), *capfd.readouterr())

    return call


def test_the_command_lists_and_deletes(tmp_path: Path, run: Callable[..., Any]) -> None:
    table = delta(tmp_path / "orders")
    table.create(COLUMNS, [PartitionColumn("p")])
    kept, lost = attempt(table, "a"), attempt(table, "b", "c")
    commit(table, 1, kept)
    for file in kept + lost:
        os.utime(tmp_path / "orders" / file.path, (time.time() - 90_000,) * 2)

    young = run(str(tmp_path / "orders"))
    listed = run(str(tmp_path / "orders"), "--grace", "1d", "--json")
    refused = run(str(tmp_path / "orders"), "--grace", "1d", "--delete")
    before = stored(table)
    deleted = run(str(tmp_path / "orders"), "--grace", "1d", "--delete", "--yes")

    assert "has no leftovers older than 7d" in young[2]
    [place] = json.loads(listed[1])["places"]
    assert (place["files"], place["committed_files"]) == (2, 0)
    assert refused[0] == 2 and before == paths(kept + lost)
    assert deleted[0] == 0 and "Deleted 2 files." in deleted[2]
    assert stored(table) == paths(kept)


def test_the_command_takes_an_iceberg_table(tmp_path: Path) -> None:
    configured = catalog(tmp_path)
    named = configured.pop("name").upper()
    environment = {
        f"PYICEBERG_CATALOG__{named}__{key.upper()}": value for key, value in configured.items()
    }
    table = orders(tmp_path)
    table.create(COLUMNS, [PartitionColumn("p")])
    for file in attempt(table, "b"):
        os.utime(Path(opened(table).storage.location.removeprefix("file://"), file.path), (0, 0))
    command = ["state-store", "leftovers", "sales.orders", "--catalog", "left", "--delete", "--yes"]

    # PyIceberg reads the environment when it is imported.
    deleted = subprocess.run(
        [sys.executable, "-m", "holdfast", *command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert deleted.returncode == 0, deleted.stderr
    assert "Deleted 1 file." in deleted.stderr
    assert stored(table) == set()
