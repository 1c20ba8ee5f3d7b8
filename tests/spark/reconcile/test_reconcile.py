"""Reconciliation of objects and references, and deletion of orphans."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from objectserver import object_server
from planted import ANNA, LOAD, LONG, ORDERS, Planted, age
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from servers import ServerDatabase

from holdfast import commands as c
from holdfast.cli import invoke
from holdfast.errors import BackendFailed, MissingDependency
from holdfast.model.path_part import path_part
from holdfast.model.scope import StoreScope, TaskScope
from holdfast.model.value import JsonValue, as_reference, encode
from holdfast.settings import load
from holdfast.spark.error_translation import translated
from holdfast.spark.reconcile.comparison import Comparison
from holdfast.spark.reconcile.deletion import Deletion, delete
from holdfast.spark.reconcile.summary import Part, Size, Summary
from holdfast.spark.session import maintenance as standby
from holdfast.spark.source.registration import register
from holdfast.stores.offload.objects.naming import MAX_PART

WEEK = timedelta(days=7)
CUT = path_part(LONG.name or "", MAX_PART).replace("%3A", ":").replace("%2F", "/")
"""A long name, truncated as in a path."""


class Files:
    """One object of each kind on a disk, and the report of a comparison."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        url, self.report = f"file://{directory}/objects", directory / "report"
        self.database = f"sqlite:///{directory}/holdfast.db"
        self.planted = planted = Planted.at(self.database, url)
        planted.entry(LOAD, "live", '"12345"')
        planted.expired("expired", '"12345"')
        planted.entry(ORDERS, "until", '"before"')
        planted.entry(ORDERS, "until", '"after"')
        planted.staged("staged", '"staged"')
        planted.queued("queued", "1")
        planted.reserved("reserved", "1")
        self.lost = planted.missing(LOAD, "lost", "2")
        looks_like_one: JsonValue = {"__holdfast_ref__": planted.place(LOAD, "orphan", "333")}
        planted.store.execute(c.Set(LOAD, "text", encode(looks_like_one), ANNA))
        other = as_reference("file:///other/task/a/b/c/-1/k/" + "0" * 64 + ".json")
        planted.store.execute(c.ReserveObjects(LOAD, (("other", other, "mine"),), ANNA))
        planted.store.execute(c.Set(LOAD, "other", other, ANNA, reservation="mine"))
        orphan = planted.orphan(LOAD, "orphan", "333")
        orphaned_task = planted.orphan(TaskScope("gone+dag", "r", "t", 7), "a/b", "4444")
        self.old = {age(orphan, WEEK * 2), age(orphaned_task, WEEK * 2)}
        age(planted.orphan(LONG, "k", "1"), WEEK * 2)
        self.young = planted.orphan(ORDERS, "young", "55555")
        self.foreign = directory / "objects/task/etl/monday/load/notes.txt"
        self.foreign.write_text("mine")

        register(spark, self.database)
        self.comparison = Comparison(spark, planted.backend, str(self.report), WEEK)
        self.comparison.list_objects()
        self.late = planted.entry(LOAD, "late", '"written after the listing"')
        self.comparison.read_references()
        self.summary = self.comparison.compare()


@pytest.fixture(scope="module")
def files(local_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(local_spark, tmp_path_factory.mktemp("reconciled"))


@pytest.mark.full
def test_the_report_counts_objects_and_references(files: Files) -> None:
    assert files.summary == Summary(
        named=Size(5, 7 + 7 + 8 + 7 + 8),
        queued=Size(2, 2),
        orphan=Size(3, 3 + 4 + 1),
        young=Size(1, 5),
        foreign=Size(1, 4),
        missing=1,
        elsewhere=1,
        dags=(Part("etl", 5, 7 + 7 + 1 + 1 + 3), Part("gone+dag", 1, 4)),
        assets=(Part("orders", 4, 8 + 7 + 8 + 5), Part(CUT, 1, 1)),
    )


@pytest.mark.full
def test_the_report_lists_orphans_and_lost_references(
    files: Files, local_spark: SparkSession
) -> None:
    orphans = local_spark.read.parquet(f"{files.report}/orphans").collect()
    missing = local_spark.read.parquet(f"{files.report}/missing").collect()

    ages = {row.reference: row.age_seconds for row in orphans}
    assert len(ages) == 4
    assert {row.reference for row in orphans if row.young} == {files.young}
    assert all(ages[old] == pytest.approx(14 * 86400, abs=60) for old in files.old)
    assert [row.asDict() for row in missing] == [
        {
            "kind": "task",
            "dag_id": "etl",
            "run_id": "monday",
            "task_id": "load",
            "map_index": -1,
            "asset": None,
            "key": "lost",
            "reference": files.lost,
        }
    ]


@pytest.mark.full
def test_only_old_orphans_are_deleted(files: Files) -> None:
    before = files.planted.objects()

    done = delete(files.comparison.orphans(), files.planted.backend, files.planted.offload)

    queued_before = 1
    assert done == Deletion(queued=2, deleted=2 + queued_before, unclear=1)
    gone = before - files.planted.objects()
    assert gone >= files.old
    assert len(gone) == 3
    assert files.foreign.exists()


@pytest.fixture(scope="module")
def s3_url(local_spark: SparkSession) -> Iterator[str]:
    with object_server() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
            patch.setitem(local_spark.sparkContext.environment, name, value)
        yield f"{server.make_bucket()}/holdfast"


def test_an_orphan_that_is_referred_to_meanwhile_is_kept(
    s3_url: str,
    postgres_database: ServerDatabase,
    local_spark: SparkSession,
    tmp_path: Path,
) -> None:
    database = postgres_database.empty()
    on_s3 = Planted.at(database, s3_url)
    live = on_s3.entry(ORDERS, "until", '"live"')
    on_s3.missing(LOAD, "lost", '"lost"')
    again = on_s3.orphan(LOAD, "again", '"named again"')
    on_s3.orphan(LOAD, "orphan", '"orphan"')
    on_s3.orphan(LONG, "orphan", '"whose name the metadata has"')
    register(local_spark, database)
    comparison = Comparison(local_spark, on_s3.backend, str(tmp_path / "report"), timedelta(0))

    comparison.list_objects()
    comparison.read_references()
    summary = comparison.compare()
    on_s3.entry(LOAD, "again", '"named again"')
    done = delete(comparison.orphans(), on_s3.backend, on_s3.offload)

    assert (summary.named.objects, summary.orphan.objects, summary.missing) == (1, 3, 1)
    assert done == Deletion(queued=3, deleted=2)
    assert on_s3.objects() == {live, again}
    assert on_s3.offload.execute(c.Get(LOAD, "again")) == '"named again"'


@pytest.mark.full
@pytest.mark.parametrize(("scope", "names"), [(LOAD, 1), (ORDERS, 2)], ids=str)
def test_one_scope_is_reconciled_and_the_others_are_unchanged(
    local_spark: SparkSession, tmp_path: Path, scope: StoreScope, names: int
) -> None:
    """Reconcile an asset with its history, which refers to deleted objects, and has one lost
    reference more."""
    url = f"sqlite:///{tmp_path}/holdfast.db"
    planted = Planted.at(url, f"file://{tmp_path}/objects")
    for one in (LOAD, ORDERS):
        planted.entry(one, "live", "1")
        planted.missing(one, "lost", "2")
    orphans = {one: planted.orphan(one, "orphan", "333") for one in (LOAD, ORDERS)}
    queued = {one: planted.entry(one, "gone", "44") for one in (LOAD, ORDERS)}
    for one in (LOAD, ORDERS):
        planted.store.execute(c.Delete(one, "gone", ANNA))
    register(local_spark, url)
    nothing = timedelta(0)

    comparison = Comparison(local_spark, planted.backend, str(tmp_path / "report"), nothing, scope)
    comparison.list_objects()
    comparison.read_references()
    summary = comparison.compare()
    done = delete(comparison.orphans(), planted.backend, planted.offload, scope)

    assert (summary.named.objects, summary.orphan, summary.missing) == (names, Size(1, 3), names)
    assert done.queued == 1
    [other] = {LOAD, ORDERS} - {scope}
    left = planted.objects()
    assert orphans[scope] not in left
    assert {orphans[other], queued[other]} <= left


@pytest.mark.full
def test_the_command_deletes_orphans_and_fails_for_lost_values(
    local_spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(standby, "maintenance_session", lambda settings: nullcontext(local_spark))
    (tmp_path / "holdfast.toml").write_text(
        '[workers]\nstate_backend = "holdfast.sdk.state.ObjectStoreBackend"\n'
        f'[object_store]\nurl = "file://{tmp_path}/objects"\n'
    )
    planted = Planted.at(load().database_url, f"file://{tmp_path}/objects")
    live = planted.entry(LOAD, "live", "1")
    planted.missing(LOAD, "lost", "2")
    planted.orphan(LOAD, "orphan", "333")
    options = ["--delete", "--yes", "--grace", "0", "--report", "report", "--json"]

    status = invoke(["state-store", "reconcile", *options])

    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["named"]["objects"], found["orphan"]) == (1, {"objects": 1, "bytes": 3})
    assert found["deletion"] == {"queued": 1, "deleted": 1, "failed": 0, "unclear": 0}
    assert status == 1
    assert "1 reference has no object: its value is lost" in err
    assert planted.objects() == {live}


@pytest.mark.full
def test_an_error_on_executors_is_reported_in_plain_words(local_spark: SparkSession) -> None:
    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        raise BackendFailed("cannot list s3://b", hint="see")

    with pytest.raises(BackendFailed) as caught, translated("list the storage"):
        local_spark.range(1).mapInArrow(fail, "id long").collect()

    assert (caught.value.message, caught.value.hint) == ("cannot list s3://b", "see")


def test_executors_without_holdfast_are_an_error() -> None:
    with (
        pytest.raises(MissingDependency, match="the package `holdfast` is not installed there"),
        translated("list the storage"),
    ):
        raise PythonException("ModuleNotFoundError: No module named 'holdfast'")
