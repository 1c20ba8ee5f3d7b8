"""Chunks of an attempt that has died or is stopped, while its Spark job continues."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chunking import GATED, NUMBERS, remote_of, without_renames, write_as_a_zombie, write_numbers
from forks import forks
from pyspark.sql import SparkSession

import holdfast
from holdfast.spark.checkpoints import chunks
from holdfast.spark.checkpoints.chunks import read_chunks

pytestmark = pytest.mark.parametrize("spark", ["connect"], indirect=True)

PATIENCE = 60


def wait_for(what: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


class Zombie:
    """Attempt in its own process, in the middle of a chunk."""

    def __init__(self, spark: SparkSession, place: Path, renamed: bool) -> None:
        self.url = f"sqlite:///{place}/state.db"
        self.out = place / "out"
        self.gate = place / "gate"
        self._draft = "_holdfast-*/data" if renamed else f"chunk={GATED}/holdfast_try=*"
        self.process = forks().Process(
            target=write_as_a_zombie,
            args=(remote_of(spark), self.url, self.out, self.gate, renamed),
        )
        self.process.start()
        wait_for((self.out / f"chunk={GATED - 1}").exists)
        wait_for(lambda: list(self.out.glob(f"{self._draft}/_temporary/0/task_*")))

    def let_its_job_commit(self, others: int) -> None:
        """Let its job commit, after that many commits of other jobs to such a directory."""
        self.gate.touch()
        wait_for(lambda: len(list(self.out.glob(f"{self._draft}/_SUCCESS"))) == others + 1)

    def end(self) -> None:
        self.process.kill()
        self.process.join()


@pytest.fixture(params=["renamed", "tries"])
def zombie(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Zombie]:
    renamed = request.param == "renamed"
    if not renamed:
        monkeypatch.setattr(chunks, "renames", without_renames)
    found = Zombie(spark, tmp_path, renamed)
    yield found
    found.end()


def succeed(spark: SparkSession, zombie: Zombie) -> list[str]:
    with (
        holdfast.connect(zombie.url) as connection,
        connection.task_store("d", "r", "t").attempt() as attempt,
    ):
        return write_numbers(spark, attempt.task_store, zombie.out, "successor")


def rows_of(found: Any) -> list[tuple[int, str]]:
    return sorted((row.id, row.writer) for row in found.collect())


def is_renamed(zombie: Zombie) -> bool:
    return (zombie.out / f"chunk={GATED}/_holdfast.json").exists()


def check(spark: SparkSession, zombie: Zombie, paths: list[str]) -> None:
    """Assert that each row is present once, and those of the chunk are the successor's."""
    rows = rows_of(read_chunks(spark, paths))
    assert [number for number, _ in rows] == list(range(10 * len(NUMBERS)))
    assert {writer for number, writer in rows if number // 10 >= GATED} == {"successor"}
    if is_renamed(zombie):
        assert rows_of(spark.read.parquet(str(zombie.out))) == rows


@pytest.mark.full
def test_the_commit_of_a_killed_attempts_job_after_its_successor_is_not_visible(
    spark: SparkSession, zombie: Zombie
) -> None:
    zombie.end()
    paths = succeed(spark, zombie)
    check(spark, zombie, paths)

    zombie.let_its_job_commit(others=0 if is_renamed(zombie) else 1)

    check(spark, zombie, paths)


@pytest.mark.full
def test_the_commit_of_a_killed_attempts_job_before_its_successor_is_not_visible(
    spark: SparkSession, zombie: Zombie
) -> None:
    zombie.end()
    zombie.let_its_job_commit(others=0)
    seen = spark.read.parquet(f"{zombie.out}/chunk=0").count()

    paths = succeed(spark, zombie)

    assert seen == 10
    check(spark, zombie, paths)


@pytest.mark.parametrize("starts_over", [False, True], ids=["goes on", "starts over"])
def test_an_attempt_that_wakes_up_after_its_successor_undoes_nothing(
    spark: SparkSession, zombie: Zombie, starts_over: bool
) -> None:
    os.kill(zombie.process.pid or 0, signal.SIGSTOP)
    if starts_over:
        with holdfast.connect(zombie.url) as connection:
            connection.task_store("d", "r", "t").clear()
    paths = succeed(spark, zombie)
    before = rows_of(read_chunks(spark, paths))
    zombie.let_its_job_commit(others=0 if is_renamed(zombie) else 1)

    os.kill(zombie.process.pid or 0, signal.SIGCONT)
    zombie.process.join()

    assert zombie.process.exitcode == 1
    check(spark, zombie, paths)
    assert rows_of(read_chunks(spark, paths)) == before
    if starts_over:
        assert {writer for _, writer in before} == {"successor"}
