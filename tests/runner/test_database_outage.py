"""Outage of the database that is longer than any timeout, under a scheduler."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from killable import KillableServer
from project import Project, new_project, wait_until
from servers import postgres_server

from holdfast.model.run import RunState

DAG = """
    import os, time
    from holdfast.sdk import DAG, task

    with DAG("d", schedule="@once"):

        @task
        def before():
            return "before"

        @task
        def work(found, task_store=None):
            task_store.set("begun", True)
            while not os.path.exists("go"):
                time.sleep(0.05)
            return found

        work(before())
    """


SHORT_LEASE = """
    from datetime import timedelta
    from holdfast.runner.protocol import parameters
    parameters.LEASE = timedelta(seconds=4)
    """
AWAY = 4.0


@pytest.fixture(scope="module")
def server() -> Iterator[KillableServer]:
    with postgres_server() as server:
        killable = KillableServer(server)
        yield killable
        killable.kill()


@pytest.fixture
def on_postgres(server: KillableServer, tmp_path: Path) -> Iterator[Project]:
    environ = {
        "HOLDFAST__DATABASE__URL": server.server.new_database(),
        "HOLDFAST__CORE__RETRY_WINDOW": "1s",
    }
    with new_project(tmp_path, **environ) as project:
        assert project.holdfast("db", "migrate").status == 0
        yield project


WRITER = """
    import os, time
    from holdfast.sdk import DAG, task

    with DAG("d", schedule="@once"):

        @task
        def work(task_store=None):
            task_store.set("begun", True)
            while not os.path.exists("go"):
                time.sleep(0.05)
            try:
                task_store.set("more", True)
            finally:
                open("done", "w").close()

        work()
    """


@pytest.mark.full
def test_a_task_that_cannot_write_during_an_outage_uses_up_no_retry(
    server: KillableServer, on_postgres: Project
) -> None:
    project = on_postgres
    project.write("dags/dag.py", WRITER)
    with project.service("scheduler", "dags", HOLDFAST__CORE__RETRY_WINDOW="4s"):
        wait_until(lambda: project.runs("d"))
        [run] = project.runs("d")
        wait_until(lambda: project.task_store("work", "d", run.run_id))
        server.stop()
        project.path("go").touch()
        wait_until(project.path("done").exists)
        server.start()
        wait_until(lambda: project.run_of("d", run.run_id).state.ended)

    assert project.run_of("d", run.run_id).state is RunState.SUCCESS
    attempts = project.attempts("work", "d", run.run_id)
    assert [one.outcome for one in attempts] == ["interrupted", "success"]
    assert "the store was unavailable" in attempts[0].error


@pytest.mark.full
@pytest.mark.parametrize(
    ("ends", "outcomes"),
    [("after it", ["success"]), ("while it is away", ["interrupted", "success"])],
)
def test_a_scheduler_continues_when_the_database_is_available_again(
    server: KillableServer, on_postgres: Project, ends: str, outcomes: list[str]
) -> None:
    project = on_postgres
    project.write("dags/dag.py", DAG)
    project.write("short/sitecustomize.py", SHORT_LEASE)
    with project.service("scheduler", "dags", PYTHONPATH=str(project.path("short"))) as scheduler:
        wait_until(lambda: project.runs("d"))
        [run] = project.runs("d")
        wait_until(lambda: project.task_store("work", "d", run.run_id))
        server.stop()
        if ends == "while it is away":
            project.path("go").touch()
        time.sleep(AWAY)
        alive = scheduler.poll() is None
        server.start()
        project.path("go").touch()
        wait_until(lambda: project.run_of("d", run.run_id).state.ended)

    assert alive, project.read("scheduler.err")
    assert project.run_of("d", run.run_id).state is RunState.SUCCESS
    assert project.result("work", "d", run.run_id) == ["before"]
    assert [one.outcome for one in project.attempts("work", "d", run.run_id)] == outcomes
    said = project.read("scheduler.err")
    assert "the database is unavailable: " in said and "retrying" in said
    assert "the database is available again, after " in said
    assert "Traceback" not in said
