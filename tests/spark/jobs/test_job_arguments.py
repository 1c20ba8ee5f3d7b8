"""Arguments of a SparkJob, and its submission to each kind of cluster, without Spark."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import psutil
import pytest
from kept import await_true

from holdfast.errors import HoldfastError, InvalidDag, InvalidInput, SparkUnavailable
from holdfast.sdk.context import Context
from holdfast.spark.jobs import detached
from holdfast.spark.jobs.clusters import State, Status
from holdfast.spark.jobs.clusters.local import LocalSubmit
from holdfast.spark.jobs.clusters.standalone import StandaloneCluster
from holdfast.spark.jobs.driver import own_id
from holdfast.spark.jobs.job import SparkJob, cluster_of
from holdfast.spark.jobs.log import DriverLog
from holdfast.spark.jobs.submission import Submission, located

INTENT = str(uuid4())
CONTEXT = cast(Context, {"job_intent": INTENT})


def job(**arguments: Any) -> SparkJob:
    return SparkJob(task_id="load", **{"application": "app.py", **arguments})


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("app.py", "app.jar", "lib.zip"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"application": "gone.py"}, "the application `gone.py` does not exist: /"),
        ({"application": "app.jar"}, "app.jar has no main_class"),
        ({"main_class": "org.example.Main"}, "app.py has a main_class"),
        ({"py_files": ["lib.zip", "gone.zip"]}, "in py_files, `gone.zip` does not exist"),
        ({"args": "--day 1"}, "args is '--day 1'"),
        ({"conf": {"executor.cores": 2}}, "conf has 'executor.cores': 2"),
        ({"conf": {"spark.executor.cores": None}}, "conf has 'spark.executor.cores': None"),
        ({"conf": ["spark.ui.enabled=false"]}, "conf is ['spark.ui.enabled=false']"),
    ],
)
def test_an_application_that_cannot_be_submitted_is_an_error(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(HoldfastError) as raised:
        job(**arguments)._submission(CONTEXT, cast(Any, None))

    assert message in raised.value.message
    assert raised.value.message.startswith("task `load`: ")
    assert raised.value.hint


@pytest.mark.parametrize(
    "arguments",
    [
        {"deploy_mode": "cluster"},
        {"deploy_mode": "cluster", "master": "spark://"},
        {"deploy_mode": "cluster", "master": "yarn"},
        {"deploy_mode": "cluster", "master": "spark://h:7077", "rest_url": "h:6066"},
        {"deploy_mode": "server"},
    ],
)
def test_an_invalid_cluster_is_an_error(arguments: dict[str, Any]) -> None:
    with pytest.raises((InvalidDag, InvalidInput)) as raised:
        cluster_of(job(**arguments))

    assert raised.value.hint


def test_invalid_arguments_are_refused_when_the_dag_is_created() -> None:
    with pytest.raises(InvalidDag, match="durable=False"):
        job(durable=False)
    with pytest.raises(InvalidDag, match="poll_interval is 0"):
        job(poll_interval=0)


def test_a_master_without_a_rest_server_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"

    with pytest.raises(SparkUnavailable, match="does not answer") as raised:
        StandaloneCluster("spark://127.0.0.1:7077", url, url).submit(submission())

    assert "spark.master.rest.enabled" in raised.value.hint


def submission(**facts: Any) -> Submission:
    return Submission(
        **{
            "name": "load",
            "intent": INTENT,
            "application": "/apps/app.py",
            "main_class": "",
            "args": ("1",),
            "conf": {"spark.executor.cores": "2"},
            "files": (),
            "py_files": ("/apps/lib.zip",),
            "jars": (),
            "archives": (),
            "environment": {"HOLDFAST_JOB": "{}", "HOLDFAST_JOB_TOKEN": "secret"},
            **facts,
        }
    )


@pytest.fixture
def spark_submit(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a `spark-submit` that records its arguments, and prints the text in `answer`."""
    (here / "bin").mkdir()
    program = here / "bin" / "spark-submit"
    program.write_text(
        '#!/bin/sh\ncd "$SPARK_HOME"\necho "$@" > asked\n'
        'while [ $# -gt 0 ]; do [ "$1" = --properties-file ] && cp "$2" settings; shift; done\n'
        "cat answer 2>/dev/null; exit $(cat status 2>/dev/null || echo 0)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(here))
    return here


def test_a_local_driver_is_submitted_once_and_its_end_is_recorded(spark_submit: Path) -> None:
    (spark_submit / "answer").write_text("all went well\n")
    cluster = LocalSubmit("local[1]", spark_submit / "home")

    driver = cluster.submit(submission())
    await_true(lambda: not cluster.status(driver).state.active)
    (spark_submit / "status").write_text("3")
    again = cluster.submit(submission())

    assert (driver, again, cluster.find(INTENT)) == (INTENT, INTENT, INTENT)
    assert cluster.find(str(uuid4())) is None
    assert cluster.status(driver).state is State.SUCCEEDED
    assert cluster.read(driver, "log", None) == (b"all went well\n", 14)
    assert cluster.read(driver, "log", 4) == (b"went well\n", 14)
    assert cluster.status(str(uuid4())).state is State.UNKNOWN


@pytest.mark.full
def test_a_local_driver_runs_while_its_program_does_and_can_be_ended(spark_submit: Path) -> None:
    program = spark_submit / "bin" / "spark-submit"
    program.write_text("#!/bin/sh\nsleep 100\n")
    cluster = LocalSubmit("local[1]", spark_submit / "home")
    driver = cluster.submit(submission())
    keeper = detached.owner(spark_submit / "home" / "spark" / "jobs" / driver)
    assert keeper is not None
    await_true(lambda: psutil.Process(keeper.pid).children())
    os.kill(keeper.pid, signal.SIGKILL)
    await_true(lambda: not psutil.pid_exists(keeper.pid))

    alone = cluster.status(driver).state
    cluster.cancel(driver)

    assert alone is State.RUNNING
    assert cluster.status(driver).state is State.UNKNOWN


def test_the_spark_message_of_a_failed_python_application_is_not_shown(spark_submit: Path) -> None:
    place = spark_submit / "home" / "spark" / "jobs" / INTENT
    place.mkdir(parents=True)
    (place / "log").write_text(
        "KeyError: 'k'\n"
        'Exception in thread "main" java.lang.reflect.InvocationTargetException\n'
        "Caused by: org.apache.spark.SparkUserAppException: User application exited with 1\n"
    )
    log = DriverLog(LocalSubmit("local[1]", spark_submit / "home"), INTENT)

    assert list(log.new_lines()) == ["KeyError: 'k'"]


def test_the_end_of_a_long_log_is_shown(spark_submit: Path) -> None:
    cluster = LocalSubmit("local[1]", spark_submit / "home")
    place = spark_submit / "home" / "spark" / "jobs" / INTENT
    place.mkdir(parents=True)
    (place / "log").write_text("begun\n")
    log = DriverLog(cluster, INTENT)
    assert list(log.new_lines()) == ["begun"]
    chatter = "26/01/31 12:00:00 INFO Executor: Running task\n" * 3000
    (place / "log").write_text(f"begun\n{chatter}ValueError: the reason\n")

    assert list(log.new_lines()) == ["ValueError: the reason"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ((), ""),
        (("there is no disk left", "cannot go on"), "cannot go on"),
        (
            ("Traceback (most recent call last):", "  raise", "KeyError: 'k'", "26/1/31 WARN x: y"),
            "KeyError: 'k'",
        ),
        (
            ("holdfast.errors.NotFound: no asset `a`", "hint: declare it"),
            "holdfast.errors.NotFound: no asset `a`",
        ),
        (
            (
                'Exception in thread "main" org.apache.spark.SparkException: Job aborted',
                "Caused by: java.io.IOException: disk full",
            ),
            "Caused by: java.io.IOException: disk full",
        ),
        (("ValueError: early", "KeyboardInterrupt"), "KeyboardInterrupt"),
    ],
)
def test_the_reason_of_a_failure_is_the_last_error_in_the_log(
    spark_submit: Path, lines: tuple[str, ...], reason: str
) -> None:
    place = spark_submit / "home" / "spark" / "jobs" / INTENT
    place.mkdir(parents=True)
    (place / "log").write_text("".join(f"{line}\n" for line in lines))
    log = DriverLog(LocalSubmit("local[1]", spark_submit / "home"), INTENT)

    assert list(log.new_lines()) == list(lines)
    assert log.reason() == reason


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_file_may_have_another_name_where_it_is_unpacked(here: Path, prefix: str) -> None:
    (here / "env.tgz").touch()

    assert located("archive", f"{prefix}{here}/env.tgz#env") == f"{here}/env.tgz#env"


def test_a_local_driver_that_failed_or_vanished_is_reported(spark_submit: Path) -> None:
    (spark_submit / "status").write_text("3")
    cluster = LocalSubmit("local[1]", spark_submit / "home")
    driver = cluster.submit(submission())
    await_true(lambda: not cluster.status(driver).state.active)

    failed = cluster.status(driver)
    (spark_submit / "home" / "spark" / "jobs" / INTENT / "status").unlink()
    await_true(lambda: not cluster.status(driver).state.active)
    vanished = cluster.status(driver)

    assert failed == Status(State.FAILED, "spark-submit ended with exit status 3")
    assert vanished.state is State.UNKNOWN
    assert "is gone and has left no exit status" in vanished.detail


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        (
            "SPARK_DRIVER_LOG_URL_STDERR",
            "http://h:8081/logPage/?driverId=driver-2026-0001&logType=stderr",
            "driver-2026-0001",
        ),
        ("UNRELATED", "", "driver-2026-0002"),
    ],
)
def test_a_driver_knows_its_id_on_the_cluster(
    variable: str, text: str, expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "driver-2026-0002").mkdir()
    monkeypatch.chdir(tmp_path / "driver-2026-0002")
    monkeypatch.setenv(variable, text)

    assert own_id() == expected
