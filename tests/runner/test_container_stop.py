"""Stop of `holdfast run` by SIGTERM, to it alone or to all its processes, or with its terminal."""

from __future__ import annotations

import os
import signal
import time

import pytest
from project import Project, send_signal, wait_until
from terminal import Terminal

DAG = """
    import os, time
    from holdfast.sdk import DAG, task

    with DAG("d"):

        @task
        def work(task_store=None):
            tries = task_store.get("tries", 0) + 1
            task_store.set("tries", tries)
            while not os.path.exists("go"):
                time.sleep(0.05)
            return tries

        work()
    """


@pytest.mark.parametrize("to_all", [False, True], ids=["alone", "all"])
def test_a_stopped_run_ends_cleanly_and_can_be_resumed(project: Project, to_all: bool) -> None:
    project.write("dag.py", DAG)
    with project.start("run", "dag.py", "--run-id", "r") as process:
        wait_until((project.home / "holdfast.db").exists)
        wait_until(lambda: project.task_store("work"))
        [supervisor] = project.processes("-m holdfast.runner.supervisor")
        assert os.getsid(supervisor) != os.getsid(process.pid)  # which a terminal's end would kill
        send_signal(project.processes() if to_all else [process.pid], signal.SIGTERM)
        _, said = process.communicate(timeout=30)

    assert process.returncode == 130
    assert said.endswith("Stopped. Resume with: holdfast run dag.py --run-id r\n"), said
    assert "Traceback" not in said
    assert project.processes() == []
    assert project.run_of().owner is None
    task = project.tasks()["work"]
    assert (task.state, task.failures, task.interruptions) == ("scheduled", 0, 0)
    assert [one.outcome for one in project.attempts("work")] == ["interrupted"]

    project.path("go").touch()
    ended = project.holdfast("run", "dag.py", "--run-id", "r")

    assert ended.status == 0, ended.err
    assert project.result("work") == [2]


def test_a_task_that_gets_sigterm_before_its_supervisor_uses_no_retry(project: Project) -> None:
    project.write("dag.py", DAG)
    with project.start("run", "dag.py", "--run-id", "r") as process:
        wait_until((project.home / "holdfast.db").exists)
        wait_until(lambda: project.task_store("work"))
        [attempt] = project.attempts("work")
        assert attempt.worker is not None
        os.kill(attempt.worker.pid, signal.SIGTERM)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)

    assert process.returncode == 130
    task = project.tasks()["work"]
    assert (task.state, task.failures, task.interruptions) == ("scheduled", 0, 0)


def test_a_run_whose_terminal_is_closed_ends_cleanly(project: Project) -> None:
    project.write("dag.py", DAG)
    with Terminal(project, "run", "dag.py", "--run-id", "r") as terminal:
        wait_until((project.home / "holdfast.db").exists)
        wait_until(lambda: project.task_store("work"))
        terminal.close()

        assert terminal.process.wait(timeout=30) == 130
    wait_until(lambda: not project.processes(), timeout=5)

    assert project.run_of().owner is None
    task = project.tasks()["work"]
    assert (task.state, task.failures, task.interruptions) == ("scheduled", 0, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_scheduler_that_is_stopped_releases_its_runs(project: Project, number: int) -> None:
    project.write("dags/dag.py", DAG.replace('DAG("d")', 'DAG("d", schedule="@once")'))
    with project.service("scheduler", "dags") as scheduler:
        wait_until((project.home / "holdfast.db").exists)
        wait_until(lambda: project.runs("d"))
        [run] = project.runs("d")
        wait_until(lambda: project.task_store("work", "d", run.run_id))
        scheduler.send_signal(number)

        assert scheduler.wait(timeout=30) == 0

    [run] = project.runs("d")
    assert (run.state, run.owner) == ("running", None)
    assert project.states("d", run.run_id) == {"work": "scheduled"}
