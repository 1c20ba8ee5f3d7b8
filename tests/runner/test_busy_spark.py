"""Runs on a Spark on which an earlier attempt's work does not end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from project import Project
from webhdfs import WebHdfs, web_hdfs

from holdfast.model.run import Outcome
from holdfast.spark.session.check import answers
from holdfast.spark.session.session import address_of

DAG = """
    import os
    from datetime import timedelta
    from pathlib import Path

    from holdfast.sdk import dag, task
    from holdfast.spark.session import operations

    operations.LIMIT = 2


    @dag(schedule=None, default_args={"retries": 1, "retry_delay": timedelta(0)})
    def d():
        @task.pyspark
        def write(spark):
            Path("process").write_text(str(os.getpid()))
            spark.range(0, 10, 1, 1).write.mode("overwrite").json(os.environ["PLACE"])

        write()


    d()
"""


@pytest.fixture
def stuck(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHdfs]:
    """Yield a file system on which the first commit kills its attempt, and never ends."""
    killed, over = Event(), Event()

    def before(path: str) -> None:
        if "_temporary" not in path and "/part-" in path and not killed.is_set():
            killed.set()
            os.kill(int(project.read("process")), signal.SIGKILL)
            over.wait()

    with web_hdfs(tmp_path_factory.mktemp("files"), before) as files:
        yield files
        over.set()


def rows(directory: Path) -> list[str]:
    return [line for path in directory.rglob("*.json") for line in path.read_text().splitlines()]


@pytest.mark.full
def test_a_managed_spark_is_stopped_and_no_retry_is_used(project: Project, stuck: WebHdfs) -> None:
    done = project.run_dag(DAG, PLACE=f"{stuck.url}/out")

    assert done.status == 0, done.err
    attempts = project.attempts("write")
    assert [one.outcome for one in attempts] == [
        Outcome.FAILED,
        Outcome.INTERRUPTED,
        Outcome.SUCCESS,
    ]
    assert "Spark was stopped, because" in attempts[1].error
    assert "an earlier attempt still run on" in attempts[1].error
    assert len(rows(stuck.directory)) == 10


@pytest.mark.full
def test_an_external_spark_is_not_stopped_and_the_attempt_fails(
    project: Project, stuck: WebHdfs, elsewhere: str
) -> None:
    done = project.run_dag(DAG, PLACE=f"{stuck.url}/out", HOLDFAST__SPARK__REMOTE=elsewhere)

    assert done.status == 1
    attempts = project.attempts("write")
    assert [one.outcome for one in attempts] == [Outcome.FAILED, Outcome.FAILED]
    assert "an earlier attempt still run on" in attempts[1].error
    assert answers("localhost", address_of(elsewhere).port)
