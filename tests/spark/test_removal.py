"""Directories of undone loads, removed in the file system that Spark writes to."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from holdfast.actions.loads import Load
from holdfast.cli.removal import remove
from holdfast.entry import ApiWriter
from holdfast.loadrecord import record_in
from holdfast.settings import Settings, load
from holdfast.spark import standby
from remembered import record


@pytest.fixture
def settings(
    tmp_path: Path, local_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """A default file system is configured, so that Spark has to find the directories."""
    monkeypatch.setattr(standby, "maintenance_session", lambda settings: nullcontext(local_spark))
    found = load(tmp_path, {})
    conf = {"spark.hadoop.fs.defaultFS": "file:///"}
    return msgspec.structs.replace(found, spark=msgspec.structs.replace(found.spark, conf=conf))


def undone(*directories: str) -> list[Load]:
    remembered = record_in(record(3, 10, directories=directories))
    assert remembered is not None
    return [Load("watermark", remembered, 4, datetime.now(UTC), ApiWriter("ann"), undone=True)]


def test_what_is_there_is_removed_and_the_rest_is_told(settings: Settings, tmp_path: Path) -> None:
    name = "load=orders.watermark.000000000003"
    there, gone, shared = tmp_path / "a" / name, tmp_path / "b" / name, tmp_path / "all"
    for directory in (there, shared):
        directory.mkdir(parents=True)
        (directory / "part-0.parquet").write_text("rows")

    done = remove(settings, undone(str(there), str(gone), str(shared), f"nowhere://x/{name}"))

    assert done.removed == [str(there)]
    assert [there.exists(), shared.exists(), there.parent.exists()] == [False, True, True]
    assert done.left[str(shared)] == "it is not named after its load"
    assert "nowhere" in done.left[f"nowhere://x/{name}"]
    assert len(done.left) == 2
