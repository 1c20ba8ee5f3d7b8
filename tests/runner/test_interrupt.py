"""Ctrl-C: a clean stop with a hint, and the resumed run."""

from __future__ import annotations

import signal
import time

import pytest
from project import Project, wait_until
from terminal import Terminal

WAITING = """
    import os, signal, time
    from holdfast.sdk import DAG, Asset, task

    orders = Asset("orders")

    def note(text):
        with open("notes", "a") as notes:
            notes.write(text + "\\n")

    with DAG("d"):

        @task
        def first():
            note("first ran")
            return "result of first"

        @task(outlets=[orders])
        def second(found, task_store=None, asset_store=None):
            note("second ran")
            if os.path.exists("stubborn"):
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            tries = task_store.get("tries", 0) + 1
            task_store.set("tries", tries)
            asset_store.set("watermark", tries, on_success=True)
            while not os.path.exists("go"):
                time.sleep(0.05)
            return found

        second(first())
    """


def _is_under_way(project: Project) -> bool:
    return project.read("notes") == "first ran\nsecond ran\n"


def test_an_interrupted_run_resumes_without_its_finished_tasks(project: Project) -> None:
    project.write("dag.py", WAITING)
    with project.start("run", "dag.py", "--run-id", "r") as process:
        wait_until(lambda: _is_under_way(project) and project.task_store("second"))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)

    assert process.returncode == 130
    assert said.endswith("Stopped. Resume with: holdfast run dag.py --run-id r\n"), said
    assert "Traceback" not in said
    assert project.processes() == []
    assert project.states() == {"first": "success", "second": "scheduled"}
    assert project.run_of().owner is None
    assert project.asset_store("orders") == {}

    project.path("go").touch()
    ended = project.holdfast("run", "dag.py", "--run-id", "r")

    assert ended.status == 0, ended.err
    assert project.read("notes") == "first ran\nsecond ran\nsecond ran\n"
    assert project.result("second") == ["result of first"]
    assert project.asset_store("orders") == {"watermark": 2}
    assert project.tasks()["second"].failures == 0


@pytest.mark.full
def test_a_second_interrupt_ends_a_task_that_ignores_the_first(project: Project) -> None:
    project.write("dag.py", WAITING)
    project.path("stubborn").touch()
    with Terminal(project, "run", "dag.py", "--run-id", "r") as terminal:
        terminal.wait_for("second")
        wait_until(lambda: _is_under_way(project) and project.task_store("second"))
        terminal.type("\x03")
        terminal.wait_for("Stopping")
        time.sleep(0.5)
        assert terminal.process.poll() is None
        before = time.monotonic()
        terminal.type("\x03")

        assert terminal.finish() == 130
        assert time.monotonic() - before < 5
        assert "Resume with: holdfast run dag.py --run-id r" in terminal.screen
        assert "Traceback" not in terminal.screen
    wait_until(lambda: not project.processes(), timeout=5)

    project.path("go").touch()
    ended = project.holdfast("run", "dag.py", "--run-id", "r")

    assert ended.status == 0, ended.err
    assert project.result("second") == ["result of first"]


@pytest.mark.full
def test_an_interrupt_while_the_file_is_imported_leaves_nothing(project: Project) -> None:
    project.write("dag.py", "import time\nopen('importing', 'w').close()\ntime.sleep(60)\n")
    with Terminal(project, "run", "dag.py") as terminal:
        wait_until(project.path("importing").exists)
        terminal.type("\x03")

        assert terminal.finish() == 130
        assert "Traceback" not in terminal.screen
    wait_until(lambda: not project.processes(), timeout=5)
