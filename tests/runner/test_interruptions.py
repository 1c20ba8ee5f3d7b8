"""Attempts that are interrupted repeatedly: backoff, and final failure."""

from __future__ import annotations

from itertools import pairwise

import pytest
from project import Project

DAG = """
    import os, signal, time
    from holdfast.sdk import DAG, task

    with DAG("d"):

        @task
        def kills():
            os.kill(os.getppid(), signal.SIGKILL)  # what starts the tasks
            time.sleep(60)

        @task
        def after(found):
            return found

        after(kills())
    """
KILL = """
    import os, signal, time
    from pathlib import Path
    from holdfast.sdk import DAG, task

    def kill_the_supervisor():
        launcher = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(launcher.rpartition(")")[2].split()[1]), signal.SIGKILL)
        time.sleep(60)

    """
KILLS_ITS_SUPERVISOR = f"""{KILL}
    with DAG("d"):

        @task(on_failure_callback=lambda context: Path("called").write_text(context["reason"]))
        def kills():
            kill_the_supervisor()

        @task(trigger_rule="all_done")
        def after():
            return "after"

        kills() >> after()
    """
ENDS_AT_ONCE = """
    import sys
    if "holdfast.runner.supervisor" in sys.orig_argv:
        sys.exit("no supervisor today")
    """
SHORTER = """
    from datetime import timedelta
    from holdfast.runner import ending
    ending.FIRST_PAUSE = timedelta(seconds=0.4)
    """


@pytest.mark.full
def test_a_task_that_kills_its_launcher_is_retried_with_backoff_and_fails(
    project: Project,
) -> None:
    project.write("shorter/sitecustomize.py", SHORTER)

    ended = project.run_dag(DAG, PYTHONPATH=str(project.path("shorter")))

    assert ended.status == 1, ended.err
    assert "Traceback" not in ended.err
    assert project.states() == {"kills": "failed", "after": "upstream_failed"}
    task = project.tasks()["kills"]
    assert task.error == "the launcher died, 5 times in a row"
    assert (task.attempt, task.failures) == (5, 0)
    attempts = project.attempts("kills")
    assert {one.outcome for one in attempts} == {"interrupted"}
    pauses = [
        (after.started_at - before.ended_at).total_seconds()
        for before, after in pairwise(attempts)
        if before.ended_at is not None
    ]
    least = [0, 0.4, 0.8, 1.6]
    assert all(pause >= wanted for pause, wanted in zip(pauses, least, strict=True)), pauses


@pytest.mark.full
def test_a_task_that_kills_its_supervisor_fails_and_the_run_continues(project: Project) -> None:
    ended = project.run_dag(KILLS_ITS_SUPERVISOR)

    assert project.states() == {"kills": "failed", "after": "success"}, ended.err
    task = project.tasks()["kills"]
    assert task.error == "the supervisor died, 5 times in a row"
    assert (task.attempt, task.failures) == (5, 0)
    assert project.read("called") == task.error
    assert ended.err.count("the supervisor has ended (-9); starting another one") == 5


def test_a_supervisor_that_cannot_start_is_an_error(project: Project) -> None:
    project.write("ending/sitecustomize.py", ENDS_AT_ONCE)

    ended = project.run_dag(DAG, PYTHONPATH=str(project.path("ending")))

    assert ended.status == 1
    assert "error: the supervisor ended 4 times right after it had started" in ended.err


@pytest.mark.full
def test_a_file_that_kills_its_supervisor_counts_as_broken(project: Project) -> None:
    ended = project.run_dag(f"{KILL}kill_the_supervisor()")

    assert ended.status == 2
    assert "dag.py could not be imported: the supervisor died, 5 times in a row" in ended.err
