"""SIGTERM to `holdfast run` alone or to its process group, as from a container's stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from project import Project, wait_until

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


@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_a_stopped_run_ends_cleanly_and_can_be_resumed(
    project: Project, send: Callable[[int, int], None]
) -> None:
    project.write("dag.py", DAG)
    with project.start("run", "dag.py", "--run-id", "r") as process:
        wait_until((project.home / "holdfast.db").exists)
        wait_until(lambda: project.task_store("work"))
        send(process.pid, signal.SIGTERM)
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
