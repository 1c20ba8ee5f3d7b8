"""Publication of directories by rename, by processes that are killed, stopped or late."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest
from forks import forks
from publishing import publish_copy, publish_disturbed, run_together, unable
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from holdfast.errors import Conflict, InvalidInput
from holdfast.spark import publication
from holdfast.spark.paths import renames
from holdfast.spark.publication import discard_drafts, manifest_of, publish, withdraw

IDS = range(6)


@pytest.fixture(scope="module")
def sources(local_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return directories written by Spark: the same ids, in several files and partitions, from two
    writers."""
    place = tmp_path_factory.mktemp("sources")
    for name in ("first", "second"):
        rows = local_spark.range(len(IDS)).selectExpr("id", "id % 2 AS part", f"'{name}' AS writer")
        rows.repartition(2).write.partitionBy("part").parquet(str(place / name))
    return {name: place / name for name in ("first", "second")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the directory of many cases, which Spark reads together."""
    return tmp_path / "root"


def rows_of(spark: SparkSession, root: Path) -> dict[int, dict[str, list[int]]]:
    """Return the rows of a plain read: in each case, the ids by writer."""
    if not any(root.glob("case=*/chunk=*")):
        return {}
    found: dict[int, dict[str, list[int]]] = {}
    for row in spark.read.parquet(str(root)).collect():
        found.setdefault(row.case, {}).setdefault(row.writer, []).append(row.id)
    return {case: {name: sorted(ids) for name, ids in its.items()} for case, its in found.items()}


def all_of(writer: str) -> dict[str, list[int]]:
    return {writer: list(IDS)}


def test_a_directory_is_published_with_its_manifest_and_nothing_is_left_beside_it(
    local_spark: SparkSession, tmp_path: Path
) -> None:
    target = f"{tmp_path}/base/chunk=a"
    facts: dict[str, Any] = {}

    def write(draft: str) -> None:
        local_spark.range(3).write.parquet(draft)
        facts["rows"] = 3

    assert publish(write, target, edition="e", manifest=facts) is True

    assert manifest_of(target) == {"edition": "e", "rows": 3}
    assert os.listdir(tmp_path / "base") == ["chunk=a"]
    assert local_spark.read.parquet(f"{tmp_path}/base").count() == 3


def test_the_same_edition_is_not_written_again(sources: dict[str, Path], root: Path) -> None:
    assert publish_copy(root, sources["first"], "e") is True
    assert publish_copy(root, sources["second"], "e") is False

    assert manifest_of(f"{root}/chunk=a") == {"edition": "e", "source": "first"}


@pytest.mark.parametrize("exchanges", [True, False], ids=["exchange", "two renames"])
@pytest.mark.parametrize("before", ["another edition", "no manifest", "nothing in it", "a file"])
def test_another_edition_is_replaced_as_a_whole(
    before: str,
    exchanges: bool,
    local_spark: SparkSession,
    sources: dict[str, Path],
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not exchanges:
        monkeypatch.setattr(publication, "_exchange", unable)
    base = root / "case=0"
    base.mkdir(parents=True)
    if before == "another edition":
        publish_copy(base, sources["first"], "older")
    elif before == "no manifest":
        shutil.copytree(sources["first"], base / "chunk=a")
    elif before == "nothing in it":
        (base / "chunk=a").mkdir()
    else:
        (base / "chunk=a").write_text("text")

    assert publish_copy(base, sources["second"], "new") is True

    assert rows_of(local_spark, root) == {0: all_of("second")}
    assert os.listdir(base) == ["chunk=a"]


def test_a_failed_write_leaves_the_previous_edition(
    sources: dict[str, Path], tmp_path: Path
) -> None:
    publish_copy(tmp_path, sources["first"], "old")

    def fail(draft: str) -> None:
        shutil.copytree(sources["second"], draft)
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        publish(fail, f"{tmp_path}/chunk=a", edition="new", manifest={})

    assert manifest_of(f"{tmp_path}/chunk=a") == {"edition": "old", "source": "first"}
    assert os.listdir(tmp_path) == ["chunk=a"]


def test_a_write_that_went_elsewhere_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a file system that this process does not see"):
        publish_copy(tmp_path, tmp_path, "e", whole=False)

    assert os.listdir(tmp_path) == []


def test_a_path_of_another_file_system_is_refused() -> None:
    with pytest.raises(InvalidInput, match="s3a://lake/chunk=a cannot be published by a rename"):
        publish(print, "s3a://lake/chunk=a", edition="e", manifest={})


def test_a_directory_without_a_manifest_that_can_be_read_has_none(tmp_path: Path) -> None:
    (tmp_path / "_holdfast.json").write_text('{"edition":')

    assert manifest_of(str(tmp_path)) is None
    assert manifest_of(f"{tmp_path}/none") is None


@pytest.mark.parametrize(
    ("path", "renamed"),
    [
        ("/lake/orders", True),
        ("lake/orders", True),
        ("lake/a:b", True),
        ("file:/lake/orders", True),
        ("file:///lake/orders", True),
        ("hdfs://nn/lake", False),
        ("s3a://lake/orders", False),
        ("dbfs:/lake", False),
    ],
)
def test_local_paths_are_published_by_a_rename(
    path: str, renamed: bool, local_spark: SparkSession
) -> None:
    assert renames(local_spark, path) is renamed


def test_a_path_without_a_scheme_is_one_of_the_default_file_system(
    local_spark: SparkSession,
) -> None:
    conf: Any = local_spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    conf.set("fs.defaultFS", "hdfs://nn")
    try:
        assert not renames(local_spark, "/lake")
        assert renames(local_spark, "file:/lake")
    finally:
        conf.set("fs.defaultFS", "file:///")


def disturb(step: int, number: int, exchanges: bool, base: Path, *arguments: Any) -> Any:
    process = forks().Process(
        target=publish_disturbed, args=(step, number, exchanges, base, *arguments)
    )
    process.start()
    return process


def prepared(root: Path, step: int, occupied: bool, sources: dict[str, Path]) -> Path:
    base = root / f"case={step}"
    base.mkdir(parents=True)
    if occupied:
        publish_copy(base, sources["first"], "older")
    return base


@pytest.mark.full
@pytest.mark.chaos
@pytest.mark.parametrize(
    ("occupied", "exchanges"),
    [(False, True), (True, True), (True, False)],
    ids=["new", "replaced", "replaced by two renames"],
)
def test_a_retry_after_a_kill_at_any_step_ends_as_if_nothing_had_happened(
    occupied: bool,
    exchanges: bool,
    local_spark: SparkSession,
    sources: dict[str, Path],
    root: Path,
    tmp_path: Path,
) -> None:
    current = tmp_path / "current"
    current.write_text("new")
    bases = []
    for step in count(1):
        base = prepared(root, step, occupied, sources)
        process = disturb(
            *(step, signal.SIGKILL, exchanges, base, sources["second"], "new", current)
        )
        process.join()
        bases.append(base)
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL

    assert len(bases) > 20
    seen = rows_of(local_spark, root).values()
    allowed = [all_of("second"), *([all_of("first")] if occupied else [])]
    assert all(rows in allowed for rows in seen)
    if occupied and exchanges:
        assert len(seen) == len(bases)

    for base in bases:
        publish_copy(base, sources["second"], "new", current)

    assert rows_of(local_spark, root) == {
        step: all_of("second") for step in range(1, len(bases) + 1)
    }
    assert all(os.listdir(base) == ["chunk=a"] for base in bases)


@pytest.fixture
def stopped() -> Iterator[list[Any]]:
    """Yield a list of processes that a test has stopped; kill them at the end."""
    processes: list[Any] = []
    yield processes
    for process in processes:
        process.kill()
        process.join()


@pytest.mark.full
@pytest.mark.chaos
@pytest.mark.parametrize("edition", ["old", "new"])
@pytest.mark.parametrize("occupied", [False, True], ids=["new", "replaced"])
def test_a_process_stopped_at_any_step_and_resumed_after_its_successor_undoes_nothing(
    occupied: bool,
    edition: str,
    local_spark: SparkSession,
    sources: dict[str, Path],
    root: Path,
    tmp_path: Path,
    stopped: list[Any],
) -> None:
    current = tmp_path / "current"
    bases = []
    for step in count(1):
        base = prepared(root, step, occupied, sources)
        current.write_text(edition)
        # An old one has its content from the first source, as if it were another writer.
        process = disturb(*(step, signal.SIGSTOP, True, base, sources["first"], edition, current))
        stopped.append(process)
        ended = wait_until_stopped(process)
        current.write_text("new")

        publish_copy(base, sources["second"], "new", current)

        if not ended:
            os.kill(process.pid, signal.SIGCONT)
        process.join()
        bases.append(base)
        if ended:
            break

    assert len(bases) > 20
    rows = rows_of(local_spark, root)
    late = {process.exitcode for process in stopped}
    assert late == ({0, 1} if edition == "old" else {0})
    assert all(manifest_of(f"{base}/chunk=a")["edition"] == "new" for base in bases)  # type: ignore[index]
    allowed = [all_of("second"), *([all_of("first")] if edition == "new" else [])]
    assert sorted(rows) == list(range(1, len(bases) + 1))
    assert all(its in allowed for its in rows.values())


def wait_until_stopped(process: Any) -> bool:
    """Wait until it is stopped, and return False; return True if it has ended before."""
    with suppress(psutil.NoSuchProcess):
        while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
            if not process.is_alive():
                return True
        return False
    return True


@pytest.mark.parametrize("occupied", [False, True], ids=["new", "replaced"])
def test_one_of_several_concurrent_publications_of_an_edition_is_visible_and_stays(
    occupied: bool, local_spark: SparkSession, sources: dict[str, Path], root: Path
) -> None:
    bases = [prepared(root, number, occupied, sources) for number in range(1, 31)]
    start, answers = forks().Barrier(2), forks().Queue()
    writers = [
        forks().Process(target=run_together, args=(start, bases, source, answers))
        for source in sources.values()
    ]
    gaps, over = Counter[str](), threading.Event()
    watcher = threading.Thread(target=watch, args=(bases, gaps, over))
    watcher.start()
    for writer in writers:
        writer.start()
    results = [answers.get(timeout=120) for _ in writers]
    for writer in writers:
        writer.join()
    over.set()
    watcher.join()

    assert all(any(both) for both in zip(*results, strict=True))
    assert gaps == {}
    rows = rows_of(local_spark, root)
    assert sorted(rows) == list(range(1, 31))
    assert all(its in (all_of("first"), all_of("second")) for its in rows.values())
    assert all(os.listdir(base) == ["chunk=a"] for base in bases)


def watch(bases: list[Path], gaps: Counter[str], over: threading.Event) -> None:
    """Count the moments in which an edition is absent that was there before."""
    published = set()
    while not over.is_set():
        for base in bases:
            here = manifest_of(f"{base}/chunk=a")
            if here is not None and here["edition"] == "both":
                published.add(base)
            elif base in published:
                gaps[base.name] += 1


def test_a_writer_whose_draft_another_edition_has_removed_fails(
    sources: dict[str, Path], tmp_path: Path
) -> None:
    def overtaken(draft: str) -> None:
        publish_copy(tmp_path, sources["second"], "new")
        # As a Spark job that knows only the path: it creates the directory again.
        shutil.copytree(sources["first"], draft)

    with pytest.raises(Conflict, match="another writer replaced"):
        publish(overtaken, f"{tmp_path}/chunk=a", edition="old", manifest={})

    assert manifest_of(f"{tmp_path}/chunk=a") == {"edition": "new", "source": "second"}


def test_a_writer_whose_edition_was_published_by_another_succeeds(
    sources: dict[str, Path], tmp_path: Path
) -> None:
    def overtaken(draft: str) -> None:
        publish_copy(tmp_path, sources["second"], "e")
        shutil.copytree(sources["first"] / "part=1", draft)

    assert publish(overtaken, f"{tmp_path}/chunk=a", edition="e", manifest={}) is False

    assert manifest_of(f"{tmp_path}/chunk=a") == {"edition": "e", "source": "second"}


@pytest.mark.parametrize("exchanges", [True, False], ids=["exchange", "two renames"])
@pytest.mark.parametrize("at", ["the write", "the exchange"])
@pytest.mark.parametrize("other", ["theirs 1", None], ids=["another owner", "by hand"])
def test_files_added_by_others_meanwhile_are_kept(
    at: str,
    exchanges: bool,
    other: str | None,
    sources: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = tmp_path / "base" / "chunk=a"
    publish_copy(target.parent, sources["first"], "mine 1")
    exchange = publication._exchange

    def intrude() -> None:
        shutil.rmtree(target)
        shutil.copytree(sources["first"], target)
        if other is not None:
            (target / publication.FILE).write_text(json.dumps({"edition": other}))

    def write(draft: str) -> None:
        shutil.copytree(sources["second"], draft)
        if at == "the write":
            intrude()

    def disturbed(opened: int, to: str) -> None:
        monkeypatch.setattr(publication, "_exchange", exchange if exchanges else unable)
        intrude()
        publication._exchange(opened, to)

    monkeypatch.setattr(publication, "_exchange", disturbed)

    with pytest.raises(InvalidInput, match="chunk=a already exists, and this load did not save it"):
        publish(write, str(target), edition="mine 2", manifest={}, owner="mine")

    assert (manifest_of(str(target)) or {}).get("edition") == other
    assert sorted(one.name for one in target.glob("part=*")) == ["part=0", "part=1"]
    assert os.listdir(target.parent) == ["chunk=a"]


def test_a_withdrawal_keeps_an_edition_published_meanwhile(
    sources: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_copy(tmp_path, sources["first"], "mine 1")
    discard = publication._discard

    def overtaken(parent: str, prefix: str) -> None:
        monkeypatch.setattr(publication, "_discard", discard)
        publish_copy(tmp_path, sources["second"], "mine 2")

    monkeypatch.setattr(publication, "_discard", overtaken)

    withdraw(f"{tmp_path}/chunk=a", ("mine",))

    assert manifest_of(f"{tmp_path}/chunk=a") == {"edition": "mine 2", "source": "second"}
    assert os.listdir(tmp_path) == ["chunk=a"]


def test_files_left_by_killed_writers_of_an_edition_are_removed(tmp_path: Path) -> None:
    left: list[str] = []

    def write_and_look(edition: str, target: str) -> None:
        """Copy the draft while it is written, as a killed writer leaves it."""

        def write(draft: str) -> None:
            Path(draft).mkdir()
            hidden = Path(draft).parent
            copy = hidden.with_name(f"{hidden.name[:-32]}{'0' * 32}")
            shutil.copytree(hidden, tmp_path / "aside" / copy.name)
            left.append(copy.name)

        publish(write, f"{tmp_path}/out/{target}", edition=edition, manifest={})

    write_and_look("this", "chunk=a")
    write_and_look("other", "chunk=b")
    shutil.copytree(tmp_path / "aside", tmp_path / "out", dirs_exist_ok=True)

    discard_drafts(str(tmp_path / "out"), "this")
    discard_drafts(str(tmp_path / "nowhere"), "this")

    assert sorted(os.listdir(tmp_path / "out")) == sorted([left[1], "chunk=a", "chunk=b"])


def test_the_manifest_is_text_that_others_can_read(
    sources: dict[str, Path], tmp_path: Path
) -> None:
    publish_copy(tmp_path, sources["first"], "ü")

    found = json.loads((tmp_path / "chunk=a/_holdfast.json").read_text())

    assert found == {"source": "first", "edition": "ü"}


def test_a_plain_read_does_not_see_a_hidden_directory_that_a_job_has_committed(
    local_spark: SparkSession, tmp_path: Path
) -> None:
    def look(draft: str) -> None:
        rows(3).parquet(draft)
        assert local_spark.read.parquet(str(tmp_path)).count() == 5

    def rows(number: int) -> Any:
        return local_spark.range(number).withColumn("part", lit(1)).write.partitionBy("part")

    rows(5).parquet(f"{tmp_path}/chunk=a")
    publish(look, f"{tmp_path}/chunk=b", edition="e", manifest={})

    assert local_spark.read.parquet(str(tmp_path)).count() == 8
