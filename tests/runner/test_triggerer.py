"""`holdfast triggerer`: watchers of assets, killed and restarted."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import ExitStack

import landing
import pytest
from project import Project, wait_until

from holdfast import commands as c
from holdfast.model.run import RunKind


def _files_in_events(project: Project) -> list[str]:
    return [extra["payload"]["file"] for extra in project.events("landed")]


@pytest.mark.full
def test_an_event_of_a_watcher_starts_the_dags_scheduled_on_its_asset(project: Project) -> None:
    project.write("dags/dag.py", landing.DAG)
    project.path("landing").mkdir()
    with project.service("scheduler", "dags"), project.service("triggerer") as triggerer:
        wait_until(lambda: project.processes("holdfast.runner.launcher"))
        project.path("landing/a").touch()
        wait_until(lambda: project.runs("d") and project.runs("d")[0].state.ended)
        project.path("landing/b").touch()
        wait_until(lambda: len(project.runs("d")) == 2 and project.runs("d")[1].state.ended)
        triggerer.terminate()
        status = triggerer.wait(timeout=30)

    runs = project.runs("d")
    assert [(run.state, run.kind) for run in runs] == [("success", RunKind.ASSET)] * 2
    assert [project.result("load", "d", run.run_id) for run in runs] == [[["a"]], [["b"]]]
    assert project.asset_store("landed") == {"cursor": "b"}
    assert status == 0
    assert "restarting" not in project.read("triggerer.err")
    assert "Traceback" not in project.read("triggerer.err") + project.read("scheduler.err")


@pytest.mark.chaos
def test_a_killed_triggerer_loses_and_duplicates_no_event(project: Project, rounds: int) -> None:
    project.write("dag.py", landing.DAG)
    project.path("landing").mkdir()
    _make_known(project)
    with landing.Files(project.path("landing")) as files, ExitStack() as services:
        triggerer = services.enter_context(project.service("triggerer"))
        for seed in range(max(3, rounds)):
            draw = random.Random(seed)
            _wait_for_more(project)
            time.sleep(draw.uniform(0, 0.3))
            victim = draw.choice(project.processes())
            os.kill(victim, signal.SIGKILL)
            if victim == triggerer.pid:
                triggerer.wait()
                triggerer = services.enter_context(project.service("triggerer"))
        _wait_for_more(project)
        files.end()
        wait_until(lambda: project.asset_store("landed")["cursor"] == files.names[-1])

    assert _files_in_events(project) == files.names
    assert project.store.execute(c.ListRuns()) == ()


def _wait_for_more(project: Project) -> None:
    seen = len(_files_in_events(project))
    wait_until(lambda: len(_files_in_events(project)) > seen)


def _make_known(project: Project) -> None:
    """Save the DAG with a scheduler; none runs while watchers are killed."""
    project.path("dags").mkdir()
    os.rename(project.path("dag.py"), project.path("dags/dag.py"))
    with project.service("scheduler", "dags"):
        wait_until(lambda: (project.home / "holdfast.db").exists())
        wait_until(lambda: project.store.execute(c.ListDags()))
