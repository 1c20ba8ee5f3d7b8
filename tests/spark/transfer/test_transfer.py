"""Export to Parquet, import, and copy to another database: complete and unchanged."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chunking import without_renames
from pyspark.sql import SparkSession
from servers import Server, ServerDatabase, SqliteDatabase
from transfers import (
    EVERYTHING,
    LOOKALIKE,
    SMALL,
    fill,
    held,
    never,
    offloading,
    registered,
    silent,
    worker,
)

import holdfast
from holdfast import Connection
from holdfast.access.identity import UserIdentity
from holdfast.commands import AssetFilter, DeleteRun, List, TaskFilter, Where
from holdfast.errors import (
    Conflict,
    Forbidden,
    HoldfastError,
    InvalidInput,
    NotFound,
    ObjectMissing,
    SchemaMismatch,
    UnknownAsset,
)
from holdfast.model.role import Role
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.portable.source.location import Location
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import Api, Settings
from holdfast.spark.checkpoints import chunks
from holdfast.spark.transfer.checksum import Total
from holdfast.spark.transfer.copying import copy_entries
from holdfast.spark.transfer.directory import Directory
from holdfast.spark.transfer.exporting import export_entries
from holdfast.spark.transfer.filter import selected
from holdfast.spark.transfer.importing import import_entries
from holdfast.spark.transfer.manifest import Manifest
from holdfast.spark.transfer.plan import ROWS, Chunk, planned
from holdfast.spark.transfer.target import Target

DRIVER = Path(__file__).parents[1] / "transfer_driver.py"
ALL = TaskFilter()
KEYS = ("file a/ü", "kept")
TASK = "dag_id = 'a' AND run_id = 'b' AND task_id = 'c' AND map_index = 3"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the URL of a store with fifteen entries."""
    url = SqliteDatabase(tmp_path_factory.mktemp("source")).empty()
    fill(url)
    return url


@pytest.fixture(scope="module")
def source(url: str) -> Iterator[Connection]:
    with holdfast.connect(url) as connection:
        yield connection


@pytest.fixture
def other(postgres_database: ServerDatabase) -> Iterator[Connection]:
    """Yield the URL of an empty store in PostgreSQL."""
    with holdfast.connect(postgres_database.empty()) as connection:
        yield connection


@pytest.fixture(scope="module")
def finished(
    local_spark: SparkSession,
    url: str,
    source: Connection,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Return an export of everything."""
    path = tmp_path_factory.mktemp("exports") / "finished"
    registered(local_spark, url)
    export(local_spark, source, path)
    return path


@pytest.fixture
def exported(finished: Path, tmp_path: Path) -> Path:
    """Return a copy of the export, which the test may change."""
    return shutil.copytree(finished, tmp_path / "out")


@pytest.fixture
def imported(
    local_spark: SparkSession, other: Connection, postgres_database: ServerDatabase
) -> Callable[..., dict[str, Total]]:
    """Return a function that imports a directory into the other store."""

    def bring(path: Path, declare: bool = True, where: Where = ALL) -> dict[str, Total]:
        location = registered(local_spark, postgres_database.url)
        return import_entries(
            *(local_spark, other, location, str(path), where),
            declare=declare,
            agree=silent,
            say=silent,
        )

    return bring


def export(
    spark: SparkSession,
    source: Connection,
    path: Path,
    selection: dict[str, str] = EVERYTHING,
    *,
    resolve: bool = False,
    agree: Callable[[str], None] = never,
    rows: int = ROWS,
) -> Manifest | None:
    return export_entries(
        *(spark, source, str(path), selection),
        resolve=resolve,
        agree=agree,
        say=silent,
        rows=rows,
    )


def copy(
    spark: SparkSession,
    source: Connection,
    target: Location,
    selection: dict[str, str] = EVERYTHING,
    *,
    rows: int = ROWS,
) -> dict[str, Total] | None:
    return copy_entries(
        *(spark, source, target, selection),
        resolve=False,
        declare=True,
        agree=silent,
        say=silent,
        rows=rows,
    )


def recorded(connection: Connection) -> list[tuple[str, str]]:
    """Return the runs and keys that transfers have recorded."""
    page = connection.store.execute(List(TaskFilter("holdfast")))
    return [(found.scope.run_id, found.entry.key) for found in page.found]  # type: ignore[union-attr]


@pytest.mark.full
def test_an_export_is_imported_unchanged(
    exported: Path, imported: Callable[..., Any], source: Connection, other: Connection
) -> None:
    totals = imported(exported)

    assert held(other.store) == held(source.store)
    assert other.asset_store(name="orders").get("look") == LOOKALIKE
    manifest = json.loads((exported / "manifest.json").read_text())
    assert {name: (total.count, total.checksum) for name, total in totals.items()} == {
        name: (table["count"], table["checksum"]) for name, table in manifest["tables"].items()
    }
    assert recorded(source) == recorded(other) == []


@pytest.mark.full
def test_expired_entries_are_left_out(
    local_spark: SparkSession, other: Connection, postgres_database: ServerDatabase
) -> None:
    location = registered(local_spark, postgres_database.url)
    rows = local_spark.sql(
        "SELECT 'sales' AS dag_id, 'one' AS run_id, 'load' AS task_id, -1 AS map_index, "
        "key, '1' AS value, expires_at FROM VALUES ('gone', timestamp'2026-01-31'), "
        "('there', timestamp'2999-01-31'), ('kept', null) AS entries(key, expires_at)"
    )
    chunk = Chunk("task_store", "1-of-1", "dag_id = 'sales'", 3)
    record = other.task_store("holdfast", "one", "import")

    totals = Target(local_spark, location, other.store).bring([chunk], lambda _: rows, record)

    assert totals["task_store"].count == 2
    assert other.task_store("sales", "one", "load").keys() == ["kept", "there"]


@pytest.mark.full
def test_chunks_are_whole_dags_or_ranges_of_runs(local_spark: SparkSession, url: str) -> None:
    registered(local_spark, url)

    assert [chunk.where for chunk in planned(local_spark, {"task_store": ""}, 8)] == [
        "dag_id IN ('it''s', 'räume')",
        "dag_id IN ('sales')",
    ]
    assert [
        chunk.where for chunk in planned(local_spark, {"task_store": "dag_id = 'sales'"}, 2)
    ] == [
        "dag_id = 'sales' AND dag_id = 'sales' AND run_id >= 'one' AND run_id <= 'one'",
        "dag_id = 'sales' AND dag_id = 'sales' AND run_id >= 'two' AND run_id <= 'two'",
    ]


@pytest.mark.full
def test_a_filtered_export_has_the_matching_entries(
    local_spark: SparkSession, url: str, source: Connection, tmp_path: Path
) -> None:
    registered(local_spark, url)

    manifest = export(local_spark, source, tmp_path / "out", selected(TaskFilter("it's", "two")))

    assert manifest is not None
    assert {name: table.count for name, table in manifest.tables.items()} == {"task_store": 2}


@pytest.mark.full
@pytest.mark.parametrize(
    ("where", "brings"),
    [
        (TaskFilter("it's", "two"), {("task it's/two/load[4]", key) for key in KEYS}),
        (TaskScope("räume", "one", "load", 4), {("task räume/one/load[4]", key) for key in KEYS}),
        (AssetScope(name="customers"), {("customers", "watermark")}),
        (AssetScope(uri="s3://lake/customers"), {("customers", "watermark")}),
    ],
    ids=["run", "task", "name", "uri"],
)
def test_a_filtered_import_has_the_matching_entries(
    imported: Callable[..., dict[str, Total]],
    exported: Path,
    other: Connection,
    where: Where,
    brings: set[tuple[str, str]],
) -> None:
    totals = imported(exported, where=where)

    assert {row[:2] for row in held(other.store)} == brings
    assert [total.count for total in totals.values()] == [len(brings)]


@pytest.mark.full
@pytest.mark.parametrize(
    "where", [TaskFilter("salez"), TaskScope("sales", "one", "load"), AssetScope(name="orderz")]
)
def test_an_import_of_entries_missing_in_the_export_is_an_error(
    imported: Callable[..., dict[str, Total]], exported: Path, other: Connection, where: Where
) -> None:
    with pytest.raises(NotFound, match="has no such entries"):
        imported(exported, where=where)

    assert held(other.store) == set()


@pytest.mark.parametrize(
    ("where", "conditions"),
    [
        (TaskFilter(), {"task_store": "", "asset_store": ""}),
        (TaskScope("a", "b", "c", 3), {"task_store": TASK}),
        (AssetFilter(), {"asset_store": ""}),
        (AssetScope(name="o'hara"), {"asset_store": "asset = 'o''hara'"}),
        (AssetScope(uri="s3://lake"), {"asset_store": "uri = 's3://lake'"}),
    ],
)
def test_a_filter_is_a_condition_for_each_table(where: Where, conditions: dict[str, str]) -> None:
    assert selected(where) == conditions


@pytest.mark.full
def test_a_filter_without_matches_writes_nothing(
    local_spark: SparkSession, url: str, source: Connection, tmp_path: Path
) -> None:
    registered(local_spark, url)

    assert export(local_spark, source, tmp_path / "out", selected(TaskFilter("salez"))) is None
    assert not (tmp_path / "out").exists()


@pytest.mark.full
def test_a_finished_export_is_only_overwritten_after_confirmation(
    local_spark: SparkSession, url: str, source: Connection, exported: Path
) -> None:
    before = (exported / "manifest.json").read_text()
    with pytest.raises(AssertionError, match="Overwrite it"):
        export(local_spark, source, exported)
    assert (exported / "manifest.json").read_text() == before

    export(local_spark, source, exported, selected(AssetFilter()), agree=silent)

    assert sorted(file.name for file in exported.iterdir()) == ["asset_store", "manifest.json"]


@pytest.mark.full
def test_without_renames_an_import_reads_the_recorded_chunks_of_the_export(
    local_spark: SparkSession,
    url: str,
    source: Connection,
    other: Connection,
    imported: Callable[..., dict[str, Total]],
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunks, "renames", without_renames)
    registered(local_spark, url)
    out = tmp_path / "out"
    late = out / "task_store/chunk=2-of-3/holdfast_try=0"
    export(local_spark, source, out, rows=SMALL)
    shutil.copytree(finished / "task_store/chunk=1-of-1", late)
    export(local_spark, source, out, rows=SMALL, agree=silent)
    tidy = not late.exists() and len(list(out.glob("*/chunk=*/holdfast_try=*"))) == 4
    shutil.copytree(finished / "task_store/chunk=1-of-1", late)

    totals = imported(out)

    assert tidy

    assert totals["task_store"].count == 12
    assert held(other.store) == held(source.store)


@pytest.mark.full
def test_an_export_superseded_by_another_stops_and_undoes_nothing(
    local_spark: SparkSession,
    url: str,
    source: Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registered(local_spark, url)
    out = tmp_path / "out"
    entries, files = Chunk.entries, []

    def overtaken(chunk: Chunk, spark: SparkSession, **options: Any) -> Any:
        if chunk.name == "2-of-3" and not files:
            files.append("begun")
            export(local_spark, source, out, rows=SMALL)
            export(local_spark, source, out, agree=silent)
            files.extend(sorted(str(file) for file in out.rglob("*.parquet")))
        return entries(chunk, spark, **options)

    monkeypatch.setattr(Chunk, "entries", overtaken)

    with pytest.raises(Conflict, match="another attempt has started"):
        export(local_spark, source, out, rows=SMALL)

    assert sorted(str(file) for file in out.rglob("*.parquet")) == files[1:]
    assert json.loads((out / "manifest.json").read_text())["tables"]["task_store"]["count"] == 12
    assert local_spark.read.parquet(f"{out}/task_store").count() == 12


def test_a_file_that_cannot_be_written_leaves_no_draft(
    local_spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "taken").touch()
    directory = Directory(local_spark, str(tmp_path))

    with pytest.raises(HoldfastError, match="cannot be written"):
        directory.write("taken/file", "text")

    directory.close()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["taken"]


def test_a_directory_of_another_program_is_not_changed(
    local_spark: SparkSession, url: str, source: Connection, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    registered(local_spark, url)

    with pytest.raises(InvalidInput, match="is not empty"):
        export(local_spark, source, tmp_path)


def test_a_directory_that_is_not_an_export_is_refused(
    imported: Callable[..., Any], tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=r"not a finished export: it has no manifest\.json"):
        imported(tmp_path)


def test_an_export_of_another_format_is_refused(
    exported: Path, imported: Callable[..., Any], other: Connection
) -> None:
    file = exported / "manifest.json"
    file.write_text(file.read_text().replace('"format": 1', '"format": 2'))

    with pytest.raises(
        InvalidInput, match="an export of format 2; this version of Holdfast reads format 1"
    ):
        imported(exported)


def test_files_that_were_changed_or_lost_are_refused_before_anything_is_written(
    exported: Path, imported: Callable[..., Any], other: Connection
) -> None:
    chunks = exported / "task_store"
    for file in (chunks / "chunk=1-of-1").glob("*.parquet"):
        file.unlink()
    with pytest.raises(
        InvalidInput, match=r"chunk=1-of-1 does not match the manifest: it has 0 ent"
    ):
        imported(exported)

    shutil.rmtree(chunks / "chunk=1-of-1")
    with pytest.raises(InvalidInput, match="chunk=1-of-1 is missing"):
        imported(exported)

    assert held(other.store) == set()


def test_unknown_assets_are_named_and_nothing_is_written(
    exported: Path, imported: Callable[..., Any], other: Connection
) -> None:
    other.asset_store(name="orders", declare=True)

    with pytest.raises(
        UnknownAsset,
        match="inactive in the target: `customers`; nothing was",
    ):
        imported(exported, declare=False)

    assert held(other.store) == set()


@pytest.mark.full
def test_references_stay_references_and_values_stay_values(
    local_spark: SparkSession,
    sqlite_database: SqliteDatabase,
    postgres_database: ServerDatabase,
    other: Connection,
    tmp_path: Path,
) -> None:
    url = sqlite_database.empty()
    with worker(url, tmp_path / "objects") as pipeline:
        pipeline.task_store("sales", "one", "load").set("large", "x" * 100)
        with holdfast.connect(url) as inline:
            inline.task_store("sales", "one", "other").set("look", LOOKALIKE)
            registered(local_spark, url)
            copy(local_spark, inline, Location(postgres_database.url))
            assert held(other.store) == held(inline.store)

    with worker(postgres_database.url, tmp_path / "objects") as pipeline:
        assert pipeline.task_store("sales", "one", "load").get("large") == "x" * 100
        assert pipeline.task_store("sales", "one", "other").get("look") == LOOKALIKE


@pytest.mark.full
def test_resolved_values_no_longer_need_their_objects(
    local_spark: SparkSession,
    sqlite_database: SqliteDatabase,
    imported: Callable[..., Any],
    other: Connection,
    tmp_path: Path,
) -> None:
    url, objects = sqlite_database.empty(), tmp_path / "objects"
    with worker(url, objects) as pipeline:
        pipeline.task_store("sales", "one", "load").set("large", ["x" * 70_000])
        pipeline.asset_store(name="orders", declare=True).set("look", LOOKALIKE)
    registered(local_spark, url, offloading(objects))
    with holdfast.connect(url) as inline:
        export(local_spark, inline, tmp_path / "out", resolve=True)
        for file in objects.rglob("*.json"):
            file.unlink()
        with pytest.raises(ObjectMissing):
            export(local_spark, inline, tmp_path / "again", resolve=True)

    imported(tmp_path / "out")

    assert other.task_store("sales", "one", "load").get("large") == ["x" * 70_000]
    assert other.asset_store(name="orders").get("look") == LOOKALIKE


def test_a_copy_to_the_store_itself_is_refused(
    local_spark: SparkSession, url: str, source: Connection, tmp_path: Path
) -> None:
    registered(local_spark, url)
    link = tmp_path / "link.db"
    link.symlink_to(url.removeprefix("sqlite:///"))

    with pytest.raises(InvalidInput, match="is also the source of the entries"):
        copy(local_spark, source, Location(f"sqlite:///{link}"))

    assert recorded(source) == []


@pytest.mark.full
def test_a_copy_through_a_server_needs_an_editor(
    local_spark: SparkSession, url: str, source: Connection, other: Connection, tmp_path: Path
) -> None:
    registered(local_spark, url)
    settings = Settings(api=Api(rate_limit=0, access_log=False), directory=tmp_path)
    server = EmbeddedServer(other.store, settings)
    viewer, editor = (
        Location(server.url, server.tokens.issue(UserIdentity("ann", role)))
        for role in (Role.VIEWER, Role.EDITOR)
    )
    try:
        with pytest.raises(Forbidden):
            copy(local_spark, source, viewer)
        assert held(other.store) == set()

        copy(local_spark, source, editor)
    finally:
        server.close()

    assert held(other.store) == held(source.store)


@pytest.mark.full
def test_an_entry_changed_during_the_transfer_is_an_error(
    local_spark: SparkSession,
    url: str,
    source: Connection,
    other: Connection,
    postgres_database: ServerDatabase,
) -> None:
    registered(local_spark, url)
    with postgres_database.engine.begin() as database:
        database.exec_driver_sql(
            "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN NEW.value = '0'; RETURN NEW; END $$"
        )
        database.exec_driver_sql(
            "CREATE TRIGGER spoil BEFORE INSERT ON hf_asset_entry FOR EACH ROW "
            "WHEN (NEW.key = 'look') EXECUTE FUNCTION spoil()"
        )
    try:
        with pytest.raises(
            HoldfastError, match=r"1 of 3 entries .* differ from those sent: orders/look"
        ):
            copy(local_spark, source, Location(postgres_database.url), {"asset_store": ""})
    finally:
        with postgres_database.engine.begin() as database:
            database.exec_driver_sql("DROP FUNCTION spoil CASCADE")
        for run in {run for run, _ in recorded(source)}:
            source.store.execute(DeleteRun("holdfast", run))


def test_a_database_that_is_not_migrated_is_refused(
    local_spark: SparkSession, url: str, source: Connection, postgres: Server
) -> None:
    registered(local_spark, url)

    with pytest.raises(SchemaMismatch, match="db migrate"):
        copy(local_spark, source, Location(postgres.new_database()))


@pytest.mark.chaos
def test_a_killed_export_resumes_and_ends_as_if_nothing_had_happened(
    local_spark: SparkSession,
    url: str,
    source: Connection,
    finished: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    killed = tmp_path / "killed"
    second = killed / "task_store" / "chunk=2-of-3" / "_SUCCESS"
    kill_when(second.exists, "export", url, str(killed))
    registered(local_spark, url)
    caplog.set_level("INFO", "holdfast")

    manifest = export(local_spark, source, killed, rows=SMALL)

    assert "of 3 items, completed by an earlier attempt" in caplog.text
    assert manifest is not None
    undisturbed = json.loads((finished / "manifest.json").read_text())["tables"]
    assert {name: table.checksum for name, table in manifest.tables.items()} == {
        name: table["checksum"] for name, table in undisturbed.items()
    }
    assert local_spark.read.parquet(str(killed / "task_store")).count() == 12
    assert recorded(source) == []


@pytest.mark.chaos
@pytest.mark.full
def test_a_killed_copy_resumes_and_ends_as_if_nothing_had_happened(
    local_spark: SparkSession,
    url: str,
    source: Connection,
    other: Connection,
    postgres_database: ServerDatabase,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kill_when(lambda: len(held(other.store)) > 4, "copy", url, postgres_database.url)
    registered(local_spark, url)
    caplog.set_level("INFO", "holdfast")

    totals = copy(local_spark, source, Location(postgres_database.url), rows=SMALL)

    assert "of 4 items, completed by an earlier attempt" in caplog.text
    assert totals is not None
    assert [totals[table].count for table in EVERYTHING] == [12, 3]
    assert held(other.store) == held(source.store)
    assert recorded(source) == []


def kill_when(is_so: Callable[[], bool], *arguments: str) -> None:
    """Start the driver, and kill all of its processes at that moment."""
    driver = subprocess.Popen(
        [sys.executable, str(DRIVER), *arguments],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    try:
        while not is_so():
            assert driver.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
