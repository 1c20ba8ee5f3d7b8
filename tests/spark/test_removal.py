"""Removal of the directories of undone loads in the file system that Spark writes to."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from loading import connection, frame
from pyspark.sql import SparkSession
from remembered import record

from holdfast.actions.loads import Load, loads_of
from holdfast.cli.removal import remove
from holdfast.model.entry import ApiWriter
from holdfast.model.load_record import record_in
from holdfast.model.scope import AssetScope
from holdfast.settings import Settings, load
from holdfast.spark.loads.incremental import incremental
from holdfast.spark.session import maintenance as standby
from holdfast.store import run


@pytest.fixture
def settings(
    tmp_path: Path, local_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """Return settings with a default file system, so that Spark has to find the directories."""
    monkeypatch.setattr(standby, "maintenance_session", lambda settings: nullcontext(local_spark))
    found = load(tmp_path, {})
    conf = {"spark.hadoop.fs.defaultFS": "file:///"}
    return msgspec.structs.replace(found, spark=msgspec.structs.replace(found.spark, conf=conf))


def undone(*directories: str) -> list[Load]:
    remembered = record_in(record(3, 10, directories=directories))
    assert remembered is not None
    return [Load("watermark", remembered, 4, datetime.now(UTC), ApiWriter("ann"), undone=True)]


def test_existing_directories_are_removed_and_the_others_are_reported(
    settings: Settings, tmp_path: Path
) -> None:
    name = "load=orders.watermark.000000000003"
    there, gone, shared = tmp_path / "a" / name, tmp_path / "b" / name, tmp_path / "all"
    for directory in (there, shared):
        directory.mkdir(parents=True)
        (directory / "holdfast_try=2").mkdir()

    done = remove(settings, undone(str(there), str(gone), str(shared), f"nowhere://x/{name}"))

    assert done.removed == [str(there)]
    assert [there.exists(), shared.exists(), there.parent.exists()] == [False, True, True]
    assert done.left[str(shared)] == "it is not named after its load"
    assert "nowhere" in done.left[f"nowhere://x/{name}"]
    assert len(done.left) == 2


def test_a_directory_saved_by_another_load_is_kept(settings: Settings, tmp_path: Path) -> None:
    directory = tmp_path / "load=orders.watermark.000000000003"
    directory.mkdir()
    (directory / "_holdfast.json").write_text(json.dumps({"started_at": "later"}))

    done = remove(settings, undone(str(directory)))

    assert done.left == {str(directory): "this load did not write the data in it"}
    assert directory.exists()


@pytest.mark.full
@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_load_is_removed_and_one_of_another_store_at_its_path_is_not(
    settings: Settings, local_spark: SparkSession, tmp_path: Path, where: str
) -> None:
    def save(home: Path, id: int) -> list[Load]:
        home.mkdir()
        with connection(home) as store:
            orders = store.asset_store(name="orders", declare=True)
            checks = {"expect": {"where": "id > 0"}, "quarantine": str(tmp_path / "bad")}
            rows = frame(local_spark, [(id, id), (-1, 0)])
            incremental(rows, orders, cursor="at", **checks).save(str(tmp_path / "lake"))
            return run(store.store, loads_of(AssetScope(name="orders")))

    settings = settings if where == "elsewhere" else load(tmp_path, {})
    mine = save(tmp_path / "first", 1)
    for place in ("lake", "bad"):
        shutil.rmtree(tmp_path / place)
    theirs = save(tmp_path / "second", 2)

    assert len(remove(settings, mine).left) == 2
    assert len(list(tmp_path.glob("*/load=*/*.parquet"))) > 1
    assert len(remove(settings, theirs).removed) == 2
    assert list(tmp_path.glob("*/load=*")) == []
