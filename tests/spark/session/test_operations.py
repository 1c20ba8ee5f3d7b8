"""Spark work of earlier attempts: an attempt starts once it has ended, not once it is cancelled."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import ForkServerContext
from pathlib import Path
from threading import Event
from typing import Any

import attempt
import committing
import msgspec
import pytest
from kept import Kept
from webhdfs import web_hdfs

from holdfast.model.entry import TaskWriter
from holdfast.spark.session.session import session_id

COMMIT = re.compile(r"(?!.*_temporary).*/(part-[^/]+|half=\d|_spark_metadata/0)")


class Commits:
    """File system on which commits wait at their first rename until they are released."""

    def __init__(self) -> None:
        self.held = Event()
        self.go = Event()
        self.url = ""

    def before(self, path: str) -> None:
        if COMMIT.fullmatch(path):
            self.held.set()
            self.go.wait()


@pytest.fixture
def commits(tmp_path: Path) -> Iterator[Commits]:
    commits = Commits()
    with web_hdfs(tmp_path, commits.before) as files:
        commits.url = files.url
        yield commits
        commits.go.set()


@pytest.fixture
def pool(forking: ForkServerContext) -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=forking, max_tasks_per_child=1) as pool:
        yield pool


def kill_while_it_commits(
    forking: ForkServerContext, server: Kept, kind: str, commits: Commits, *, task: str
) -> None:
    arguments = (server.address, task, kind, f"{commits.url}/{task}")
    process = forking.Process(target=committing.write, args=arguments, daemon=True)
    process.start()
    assert commits.held.wait(60)
    process.kill()
    process.join()


@pytest.mark.full
@pytest.mark.parametrize("kind", committing.WRITES)
def test_an_attempt_waits_for_a_commit_of_a_killed_one(
    spark_server: Kept,
    forking: ForkServerContext,
    pool: ProcessPoolExecutor,
    commits: Commits,
    kind: str,
) -> None:
    kill_while_it_commits(forking, spark_server, kind, commits, task=kind)

    following = pool.submit(attempt.take_over, spark_server.address, kind, 2)
    time.sleep(2)
    waited = not following.done()
    commits.go.set()
    following.result(timeout=20)

    assert waited


@pytest.mark.full
def test_an_attempt_waits_though_the_one_before_it_was_killed_while_it_waited(
    spark_server: Kept,
    forking: ForkServerContext,
    pool: ProcessPoolExecutor,
    commits: Commits,
) -> None:
    kill_while_it_commits(forking, spark_server, "shuffle", commits, task="twice")
    arguments = (spark_server.address, "twice", 2)
    second = forking.Process(target=attempt.take_over, args=arguments, daemon=True)
    second.start()
    time.sleep(2)
    second.kill()
    second.join()

    third = pool.submit(attempt.take_over, spark_server.address, "twice", 3)
    time.sleep(2)
    waited = not third.done()
    commits.go.set()
    third.result(timeout=20)

    assert waited


@pytest.mark.full
def test_a_session_that_ends_by_itself_is_not_closed_before_its_operations_have_ended(
    spark_server: Kept,
    forking: ForkServerContext,
    pool: ProcessPoolExecutor,
    commits: Commits,
    tmp_path: Path,
) -> None:
    path, held = f"{commits.url}/own", tmp_path / "held"
    arguments = (spark_server.address, "own", path, held)
    process = forking.Process(target=committing.end_while_it_commits, args=arguments, daemon=True)
    process.start()
    assert commits.held.wait(60)
    held.touch()
    time.sleep(1)
    process.kill()
    process.join()

    following = pool.submit(attempt.take_over, spark_server.address, "own", 2)
    time.sleep(2)
    waited = not following.done()
    commits.go.set()
    following.result(timeout=20)

    assert waited


@pytest.mark.full
def test_the_end_of_a_write_is_known_although_its_task_got_sigterm(
    spark_server: Kept,
    forking: ForkServerContext,
    in_process: Callable[..., Any],
    commits: Commits,
) -> None:
    arguments = (spark_server.address, "told", f"{commits.url}/told")
    process = forking.Process(target=committing.end_by_a_signal, args=arguments, daemon=True)
    process.start()
    assert commits.held.wait(60)
    process.terminate()
    time.sleep(3)
    waited = process.is_alive()
    process.kill()
    process.join()

    during = in_process(committing.try_to_begin, spark_server.address, "told", 2, 1)
    commits.go.set()
    then = in_process(committing.try_to_begin, spark_server.address, "told", 3, 20)

    assert waited
    assert "an earlier attempt still run on" in during
    assert then == ""


@pytest.mark.full
def test_an_attempt_does_not_begin_where_an_earlier_one_does_not_end(
    spark_server: Kept,
    forking: ForkServerContext,
    in_process: Callable[..., Any],
    commits: Commits,
) -> None:
    kill_while_it_commits(forking, spark_server, "shuffle", commits, task="stuck")
    earlier = session_id(TaskWriter(attempt.scope_of("stuck"), 1), attempt.BEGUN)

    messages = [
        in_process(committing.try_to_begin, spark_server.address, "stuck", number, 1)
        for number in (2, 3)
    ]
    commits.go.set()
    then = in_process(committing.try_to_begin, spark_server.address, "stuck", 4, 20)

    assert all(f"of session {earlier}" in message for message in messages)
    assert all("an earlier attempt still run on" in message for message in messages)
    assert then == ""


def test_an_attempt_does_not_begin_where_spark_does_not_answer(
    spark_server: Kept, in_process: Callable[..., Any]
) -> None:
    gone = msgspec.structs.replace(spark_server.address, port=1)

    message = in_process(committing.try_to_begin, gone, "unknown", 2, 1)

    assert "Spark at localhost:1 did not confirm that" in message
