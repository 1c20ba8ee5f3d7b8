"""Logs of attempts on other machines: uploaded by the runner, read by command line and server."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from objectserver import object_server
from project import Project, send_signal, wait_until

from holdfast.logs.storage import LogStorage

WAITS = """
import os, time
from holdfast.sdk import DAG, task

with DAG("d"):

    @task
    def waits():
        print("begun", flush=True)
        while not os.path.exists("go"):
            time.sleep(0.05)
        for number in range(5000):
            print(f"line {number}")
        print("ended", flush=True)

    waits()
"""
LINES = ["begun", *(f"line {number}" for number in range(5000)), "ended"]
LOGS = ("tasks", "logs", "d", "r", "waits")


@pytest.fixture(scope="module")
def bucket() -> Iterator[Callable[[Project], str]]:
    """Yield a function that creates a bucket on a real S3 server, and lets a project use it."""
    with object_server() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)

        def make(project: Project) -> str:
            project.environ |= server.environment
            return server.make_bucket()

        yield make


@pytest.fixture(params=["s3", "file"])
def url(request: pytest.FixtureRequest, project: Project, tmp_path: Path) -> str:
    """Return the storage that the project's runner uploads logs to."""
    url = f"file://{tmp_path}/storage"
    if request.param == "s3":
        url = request.getfixturevalue("bucket")(project)
    project.environ["HOLDFAST__LOGS__URL"] = url
    return url


@pytest.fixture
def elsewhere(project: Project, tmp_path: Path) -> dict[str, str]:
    """Return the environment of another machine: another home, and the same database."""
    return {
        "HOLDFAST__CORE__HOME": str(tmp_path / "elsewhere"),
        "HOLDFAST__DATABASE__URL": project.url,
    }


def own_lines(text: str) -> list[str]:
    """Return the lines of a log that the task itself has printed."""
    return [line for line in text.splitlines() if line in ("begun", "ended") or line[:5] == "line "]


def pending(project: Project) -> list[str]:
    return os.listdir(project.home / "log-uploads")


@pytest.mark.full
def test_a_log_is_followed_here_and_on_another_machine_while_its_task_runs(
    project: Project, url: str, elsewhere: dict[str, str]
) -> None:
    project.write("dag.py", WAITS)
    project.environ["HOLDFAST__LOGS__MAX_SIZE"] = str(2**17)

    with project.start("run", "dag.py", "--run-id", "r") as run:
        wait_until(lambda: project.home.exists() and project.states().get("waits") == "running")
        with (
            project.start(*LOGS, "-f", **elsewhere) as follower,
            project.start(*LOGS, "-f") as here,
        ):
            assert follower.stdout is not None
            first = next(line for line in follower.stdout if line == "begun\n")
            project.write("go", "")
            rest, err = follower.communicate(timeout=60)
            local, _ = here.communicate(timeout=60)
        run.communicate(timeout=60)

    assert (follower.returncode, err) == (0, "")
    assert own_lines(first + rest) == own_lines(local) == LINES
    assert len(list(project.path(".holdfast/logs/d/r/waits").iterdir())) > 1
    again = project.holdfast(*LOGS, **elsewhere)
    assert own_lines(again.out) == LINES and again.err == ""
    assert project.holdfast(*LOGS, "--tail", "1", **elsewhere).out == "ended\n"
    assert pending(project) == []


def test_the_log_of_a_killed_supervisor_is_uploaded_by_the_next(
    project: Project, url: str, elsewhere: dict[str, str]
) -> None:
    project.write("dag.py", WAITS)
    log = LogStorage(url).log("d/r/waits/1.log")

    with project.start("run", "dag.py", "--run-id", "r") as run:
        wait_until(lambda: project.home.exists() and "begun" in read_log(project))
        wait_until(lambda: pending(project))
        send_signal(project.processes("holdfast.runner.supervisor"), signal.SIGKILL)
        project.write("go", "")
        _, err = run.communicate(timeout=60)

    assert run.returncode == 0, err
    assert log.exists() and log.is_complete
    first = project.holdfast(*LOGS, "--attempt", "1", **elsewhere)
    assert first.out == project.log("waits") and "begun\n" in first.out and first.err == ""
    second = project.holdfast(*LOGS, **elsewhere)
    assert own_lines(second.out) == LINES and second.err == ""
    assert pending(project) == []


def test_a_storage_that_fails_delays_and_fails_no_task(
    project: Project, tmp_path: Path, elsewhere: dict[str, str]
) -> None:
    blocked = tmp_path / "storage"
    blocked.write_text("a file where the directory should be")
    project.environ["HOLDFAST__LOGS__URL"] = f"file://{blocked}/logs"
    project.write("go", "")

    ended = project.run_dag(WAITS)
    missing = project.holdfast(*LOGS, **elsewhere)
    blocked.unlink()
    project.holdfast("run", "dag.py", "--run-id", "later")
    found = project.holdfast(*LOGS, **elsewhere)

    assert ended.status == 0
    assert ended.err.count("logs cannot be uploaded") == 1
    assert missing.status == 1 and "there is no log of attempt 1" in missing.err
    assert own_lines(found.out) == LINES and found.err == ""
    assert pending(project) == []


def read_log(project: Project) -> str:
    return project.read(".holdfast/logs/d/r/waits/1.log")


@pytest.mark.full
def test_a_log_of_300_mb_is_copied_with_its_beginning_and_its_end(
    project: Project, tmp_path: Path, elsewhere: dict[str, str]
) -> None:
    project.environ["HOLDFAST__LOGS__URL"] = f"file://{tmp_path}/storage"

    ended = project.run_dag(
        """
        import os
        from holdfast.sdk import DAG, task

        with DAG("d"):

            @task
            def waits():
                block = b"".join(b"%09d\\n" % number for number in range(1000))
                for _ in range(30_000):
                    os.write(1, block)

            waits()
        """
    )
    here, there = project.holdfast(*LOGS), project.holdfast(*LOGS, **elsewhere)

    assert ended.status == 0, ended.err
    assert there == here
    assert there.out.startswith("000000000\n") and there.out.endswith("000000999\n")
    assert there.out.count(" bytes were left out here]\n") == 1
    copied = sum(path.stat().st_size for path in tmp_path.glob("storage/**/*") if path.is_file())
    assert copied <= 64 * 2**20
