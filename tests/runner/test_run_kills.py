"""SIGKILL of any process of a run at any moment: the run ends as if nothing had happened."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from project import Project, new_project, wait_until

from holdfast import commands as c

DAG = """
    import time
    from holdfast.sdk import DAG, Asset, task

    total = Asset("total", uri="file:///total")

    def note(text):
        with open("notes", "a") as notes:
            notes.write(text + "\\n")

    with DAG("d", max_active_tasks=2):

        @task
        def numbers():
            return list(range(4))

        @task(outlets=[total])
        def add(x, task_store=None, asset_store=None, ti=None):
            start = task_store.get("next", 0)
            for step in range(start, 5):
                time.sleep(0.02)
                note(f"{x} {step}")
                task_store.set("next", step + 1)
            asset_store.set(f"of {x}", ti.try_number, on_success=True)
            return x * 10

        @task
        def report(found):
            return sum(found)

        report(add.expand(x=numbers()))
    """


@pytest.mark.full
@pytest.mark.chaos
def test_a_run_ends_as_if_nothing_had_happened(tmp_path: Path, rounds: int) -> None:
    for seed in range(max(3, rounds)):
        directory = tmp_path / str(seed)
        directory.mkdir()
        with new_project(directory) as project:
            _run_with_a_kill(project, random.Random(seed))
            _check(project)


def _run_with_a_kill(project: Project, draw: random.Random) -> None:
    project.write("dag.py", DAG)
    with project.start("run", "dag.py", "--run-id", "r") as process:
        time.sleep(draw.uniform(0.4, 2.0))
        with suppress(ProcessLookupError):
            os.kill(draw.choice(project.processes() or [process.pid]), signal.SIGKILL)
        _, said = process.communicate(timeout=60)
    assert process.returncode in (0, 1, -9), said
    assert "Traceback" not in said
    for _ in range(3):
        ended = project.holdfast("run", "dag.py", "--run-id", "r")
        if ended.status == 0:
            return
        cleared = project.holdfast("tasks", "clear", "d", "r", "--failed", "--yes")
        assert cleared.status == 0, ended.err + cleared.err


def _check(project: Project) -> None:
    assert project.run_of().state == "success"
    assert project.result("report") == [60]
    assert sorted(project.asset_store("total")) == [f"of {x}" for x in range(4)]
    assert len(project.events("total")) == 4
    # A step whose record was not acknowledged may have been done twice, and none is missing.
    steps = Counter(project.read("notes").splitlines())
    assert set(steps) == {f"{x} {step}" for x in range(4) for step in range(5)}
    assert sum(steps.values()) <= 22
    for label, one in project.tasks().items():
        outcomes = [each.outcome for each in project.store.execute(c.ListAttempts(one.scope))]
        assert outcomes.count("success") == 1, label
        assert one.state == "success"


SLOW_IMPORT = """
    import os, time
    from holdfast.sdk import DAG, task

    if not os.path.exists("importing"):
        open("importing", "w").close()
        time.sleep(60)

    with DAG("d"):

        @task
        def hello():
            return "hello"

        hello()
    """


@pytest.mark.parametrize("victim", ["holdfast.runner.supervisor", "holdfast.runner.launcher"])
def test_a_file_is_imported_again_if_another_process_was_killed(
    project: Project, victim: str
) -> None:
    project.write("dag.py", SLOW_IMPORT)
    with project.start("run", "dag.py", "--run-id", "r") as process:
        wait_until(project.path("importing").exists)
        os.kill(project.processes(victim)[0], signal.SIGKILL)
        _, said = process.communicate(timeout=30)

    assert process.returncode == 0, said
    assert project.result("hello") == ["hello"]
