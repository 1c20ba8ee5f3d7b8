"""Chunked output on each kind of Spark, by tasks and scripts that are killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from attempt import store_of
from chunking import remote_of, without_renames
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.utils import is_remote

from holdfast.errors import HoldfastError, InvalidInput, InvalidType
from holdfast.spark.checkpoints import chunks
from holdfast.spark.checkpoints.checkpoint import checkpointed
from holdfast.spark.checkpoints.chunks import read_chunks, write_chunks

FILES = ["a b.csv", "2026/01.csv", "ü"]


@pytest.fixture
def partitions_stay(spark: SparkSession) -> Iterator[None]:
    """Set dynamic partition overwrite, as a user may have: a write replaces the partitions that it
    has rows for."""
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    yield
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


@pytest.mark.full
def test_each_chunk_has_its_own_directory_which_is_replaced_whole(
    spark: SparkSession, tmp_path: Path, partitions_stay: None
) -> None:
    store, path = store_of("replaced"), f"{tmp_path}/out"
    half_done = tmp_path / "out/chunk=a%20b.csv/part=7/part-00000.parquet"
    half_done.parent.mkdir(parents=True)
    half_done.write_text("what a killed attempt left")

    def make(file: str) -> Any:
        rows = spark.range(3).withColumn("file", lit(file)).withColumn("part", lit(1))
        return rows.write.partitionBy("part")

    paths = write_chunks(FILES, store, path, make, key="chunks")
    again = write_chunks(FILES[:1], store, path, never, key="chunks")
    [elsewhere] = write_chunks(FILES[:1], store, f"{tmp_path}/other/", make, key="chunks")

    names = ("a%20b.csv", "2026%2F01.csv", "%C3%BC")
    assert paths == [f"{path}/chunk={name}" for name in names]
    assert again == paths[:1]
    of_the_list = spark.read.option("basePath", path).parquet(*paths[:2]).collect()
    assert sorted((row.file, row.part, row.id) for row in of_the_list) == [
        (file, 1, number) for file in sorted(FILES[:2]) for number in range(3)
    ]
    assert {row.chunk for row in of_the_list} == set(FILES[:2])
    assert elsewhere == f"{tmp_path}/other/chunk=a%20b.csv"
    assert spark.read.parquet(elsewhere).count() == 3


def never(item: Any) -> DataFrame:
    raise AssertionError(item)


@pytest.fixture(params=["renamed", "tries"])
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return how chunks are published: as on a file system, and as on object storage."""
    if request.param == "tries":
        monkeypatch.setattr(chunks, "renames", without_renames)
    return str(request.param)


NAMES = ["007", "010", "1e3", "2026-01-01", "ü x", "x/y", "c=d", "null", "漢"]


@pytest.mark.full
def test_chunks_are_read_under_the_names_of_their_items(
    spark: SparkSession, tmp_path: Path, layout: str
) -> None:
    def make(name: str) -> Any:
        rows = spark.range(2).withColumn("file", lit(name)).withColumn("part", lit(len(name)))
        return rows.write.partitionBy("part")

    paths = write_chunks(NAMES, store_of("named"), f"{tmp_path}/out", make, key="chunks")

    rows = read_chunks(spark, paths)
    assert sorted(rows.columns) == ["chunk", "file", "id", "part"]
    assert dict(rows.dtypes)["part"] == "int"
    found = sorted((row.chunk, row.file, row.id) for row in rows.collect())
    assert found == sorted((name, name, number) for name in NAMES for number in range(2))
    assert [row.id for row in rows.where("chunk = '007'").orderBy("id").collect()] == [0, 1]


@pytest.mark.full
def test_chunks_of_both_layouts_and_of_another_format_are_read_together(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of("both")

    def write(items: list[str]) -> list[str]:
        def make(item: str) -> Any:
            return spark.range(2).write.format("orc")

        return write_chunks(items, store, f"{tmp_path}/out", make, key="chunks")

    renamed = write(["01", "02"])
    monkeypatch.setattr(chunks, "renames", without_renames)
    write(["03"])
    write(["04"])
    paths = write(["01", "02", "03", "04", "05"])

    assert paths[:2] == renamed
    assert len({path.rpartition("=")[2] for path in paths[2:]}) == 3
    rows = read_chunks(spark.read.format("orc"), paths).collect()
    assert Counter(row.chunk for row in rows) == dict.fromkeys(["01", "02", "03", "04", "05"], 2)


@pytest.mark.full
def test_an_invalid_list_of_paths_is_refused(spark: SparkSession) -> None:
    for paths in ([], "lake/orders"):
        with pytest.raises(InvalidInput, match="paths that write_chunks returned"):
            read_chunks(spark, paths)


@pytest.mark.full
def test_a_recorded_chunk_that_is_missing_is_written_again(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, path = store_of("gone"), f"{tmp_path}/out"
    made: list[str] = []

    def make(item: str) -> DataFrame:
        made.append(item)
        return spark.range(2)

    write_chunks(list("abc"), store, path, make, key="chunks")
    shutil.rmtree(tmp_path / "out/chunk=a")
    for file in (tmp_path / "out/chunk=c").iterdir():
        file.unlink()
    made.clear()

    write_chunks(list("abc"), store, path, make, key="chunks")
    write_chunks(list("abc"), store, path, never, key="chunks")

    assert made == ["a", "c"]
    assert (
        f"chunks: {path}/chunk=a is recorded but missing or replaced; writing it again"
        in caplog.text
    )
    assert spark.read.parquet(path).count() == 6


def test_a_chunk_replaced_by_another_task_is_written_again(
    spark: SparkSession, tmp_path: Path, layout: str
) -> None:
    one, other, path = store_of("replaced"), store_of("replacing"), f"{tmp_path}/out"
    write_chunks(list("ab"), one, path, lambda _: spark.range(3), key="chunks")
    write_chunks(["a"], other, path, lambda _: spark.range(7), key="chunks")

    paths = write_chunks(list("ab"), one, path, lambda _: spark.range(3), key="chunks")

    assert read_chunks(spark, paths).count() == 6


def test_chunks_recorded_by_an_earlier_version_are_not_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    store, path = store_of("earlier"), f"{tmp_path}/out"
    for directory in checkpointed([f"{path}/chunk=a", f"{path}/chunk=b"], store, key="chunks"):
        spark.range(3).write.parquet(directory)

    assert write_chunks(list("ab"), store, path, never, key="chunks") == [
        f"{path}/chunk=a",
        f"{path}/chunk=b",
    ]


def test_a_task_that_starts_over_replaces_its_chunks(
    spark: SparkSession, tmp_path: Path, layout: str
) -> None:
    store, path = store_of("over"), f"{tmp_path}/out"
    first = write_chunks(list("ab"), store, path, lambda _: spark.range(3), key="chunks")
    store.clear()

    second = write_chunks(list("ab"), store, path, lambda _: spark.range(1), key="chunks")

    assert read_chunks(spark, second).count() == 2
    assert (first == second) is (layout == "renamed")


def test_an_entry_that_is_not_a_record_is_refused(tmp_path: Path) -> None:
    store = store_of("other")
    store.set("chunks/edition", "mine")

    with pytest.raises(InvalidInput, match="`chunks/edition` of the task store is not a record"):
        write_chunks(list("ab"), store, str(tmp_path), never, key="chunks")


def test_a_function_that_returns_no_dataframe_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidType, match="the function returned a NoneType for 'a', which cannot be written"
    ):
        write_chunks(list("ab"), store_of("none"), str(tmp_path), lambda _: None, key="x")  # type: ignore[arg-type,return-value]


WORK = """
    import os, signal, threading, time
    from pathlib import Path

    from pyspark.sql.functions import col, lit, udf

    from holdfast.spark.checkpoints.chunks import write_chunks

    OUT = Path("out").absolute()

    def slowly(number):
        time.sleep(0.2)
        return number

    def kill_while_it_writes():
        while not list(OUT.glob("_holdfast-*/data/_temporary/*/*")):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGKILL)

    def write(spark, store, attempt):
        def make(number):
            with open("notes", "a") as notes:
                print(attempt, number, file=notes)
            numbers = spark.range(10 * number, 10 * number + 10, 1, 2)
            if number != 4 or attempt > 1:
                return numbers
            threading.Thread(target=kill_while_it_writes, daemon=True).start()
            time.sleep(1.2)
            return numbers.select(udf(slowly, "long")("id").alias("id"))

        write_chunks(range(8), store, str(OUT), make, key="chunks")
    """

DAG = """
    from holdfast.sdk import DAG, task
    from work import write

    with DAG("d"):

        @task.pyspark(retries=1, retry_delay=0)
        def chunks(spark, task_store, ti):
            write(spark, task_store, ti.try_number)

        chunks()
    """

SCRIPT = """
    import holdfast
    from pyspark.sql import SparkSession
    from work import write

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    with holdfast.connect() as connection:
        with connection.task_store("d", "r", "chunks").attempt() as attempt:
            write(spark, attempt.task_store, attempt.number)
    """


def python(place: Path, *arguments: str, **environ: str) -> int:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HOLDFAST") and name != "SPARK_CONNECT_MODE_ENABLED"
    }
    return subprocess.run(
        [sys.executable, *arguments], cwd=place, env=inherited | environ, timeout=120, check=False
    ).returncode


def run_script(place: Path) -> None:
    assert python(place, "script.py") == -signal.SIGKILL
    assert python(place, "script.py") == 0


def run_dag(place: Path, spark: Any) -> None:
    """Run a DAG on the Connect server of the test's session."""
    run = ("-m", "holdfast", "run", "dag.py", "--run-id", "r")
    assert python(place, *run, HOLDFAST__SPARK__REMOTE=remote_of(spark)) == 0


def test_a_task_killed_during_a_chunk_does_only_the_rest(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name, text in (("work.py", WORK), ("dag.py", DAG), ("script.py", SCRIPT)):
        (tmp_path / name).write_text(dedent(text))

    if is_remote():
        run_dag(tmp_path, spark)
    else:
        run_script(tmp_path)

    attempts = Counter((tmp_path / "notes").read_text().splitlines())
    assert attempts == dict.fromkeys(
        [*(f"1 {number}" for number in range(5)), *(f"2 {number}" for number in range(4, 8))], 1
    )
    rows = [row.id for row in spark.read.parquet(f"{tmp_path}/out").collect()]
    assert sorted(rows) == list(range(80))
    assert sorted(os.listdir(tmp_path / "out")) == [f"chunk={number}" for number in range(8)]


@pytest.mark.full
def test_chunks_of_different_schemas_are_read_together(
    classic_spark: SparkSession, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        df = classic_spark.createDataFrame([(1,)], f"{name} long")
        df.write.parquet(str(tmp_path / name / "chunk=007"))
    paths = [str(tmp_path / name / "chunk=007") for name in ("a", "b")]

    found = read_chunks(classic_spark, paths)

    assert sorted(map(str, found.select("a", "b", "chunk").collect())) == [
        "Row(a=1, b=None, chunk='007')",
        "Row(a=None, b=1, chunk='007')",
    ]


@pytest.mark.full
@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_a_column_that_only_a_later_chunk_has_is_read(
    classic_spark: SparkSession, tmp_path: Path, format: str
) -> None:
    paths = [str(tmp_path / f"chunk={number}") for number in range(2)]
    for path, schema, row in zip(
        paths, ["a long", "a long, b string"], [(1,), (2, "x")], strict=True
    ):
        classic_spark.createDataFrame([row], schema).write.format(format).save(path)

    found = read_chunks(classic_spark.read.format(format), paths).select("a", "b").collect()

    assert sorted(map(tuple, found)) == [(1, None), (2, "x")]


@pytest.mark.parametrize("path", ["", None, "/", "file:"])
def test_a_path_that_is_not_a_directory_is_refused(tmp_path: Path, path: Any) -> None:
    with pytest.raises(HoldfastError, match="the path is"):
        write_chunks(["a"], store_of("pathless"), path, never, key="chunks")


@pytest.mark.parametrize("items", ["abc", None, 5])
def test_items_that_are_not_a_list_are_refused(tmp_path: Path, items: Any) -> None:
    with pytest.raises(InvalidType, match="the items are"):
        write_chunks(items, store_of("no list"), str(tmp_path), never, key="chunks")


def test_a_column_that_the_directories_would_hide_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    df = spark.range(1).withColumnRenamed("id", "Chunk")
    for made in (df, df.write.format("orc")):
        with pytest.raises(InvalidInput, match="the column `Chunk`"):
            write_chunks(
                ["a"], store_of("hidden"), str(tmp_path), lambda _, made=made: made, key="chunks"
            )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("paths", [5, [], [None], "a"])
def test_paths_that_are_not_a_list_are_refused(spark: SparkSession, paths: Any) -> None:
    with pytest.raises(InvalidInput, match="takes the paths that write_chunks returned"):
        read_chunks(spark, paths)
