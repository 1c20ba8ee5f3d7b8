"""Attempts that are interrupted again and again: pauses between them, and an end to it."""

from __future__ import annotations

from itertools import pairwise

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
SHORTER = """
    from datetime import timedelta
    from holdfast.runner import ending
    ending.FIRST_PAUSE = timedelta(seconds=0.4)
    """


def test_a_task_that_kills_what_it_runs_on_begins_after_growing_pauses_and_fails(
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
