"""Attempts that are interrupted repeatedly: backoff, and final failure."""

from __future__ import annotations

import os
import signal
from itertools import pairwise

import pytest
from project import Project, wait_until

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
NO_THREAD_AT_FIRST = """
    import threading
    from pathlib import Path

    start = threading.Thread.start

    def start_or_fail(thread):
        if thread.name.startswith("attempt of") and not Path("refused").exists():
            Path("refused").touch()
            raise RuntimeError("can't start new thread")
        start(thread)

    threading.Thread.start = start_or_fail
    """
ENDS_SLOWLY = """
    import time
    from holdfast.stores.sql.store import SqlStore

    close = SqlStore.close

    def close_slowly(self):
        time.sleep(1)
        close(self)

    SqlStore.close = close_slowly
    """
SLOW_AT_FIRST = """
    import time
    from pathlib import Path
    from holdfast.sdk import DAG, task

    if not Path("slow").exists():
        Path("slow").touch()
        time.sleep(60)

    with DAG("d"):

        @task
        def work():
            return "done"

        work()
    """
SHORTER = """
    from datetime import timedelta
    from holdfast.runner.supervisor import ending
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


def test_an_attempt_without_a_thread_ends_no_other_and_is_retried(project: Project) -> None:
    project.write("faults/sitecustomize.py", NO_THREAD_AT_FIRST)
    project.path("slow").touch()

    ended = project.run_dag(SLOW_AT_FIRST, PYTHONPATH=str(project.path("faults")))

    assert ended.status == 0, ended.err
    assert project.path("refused").exists()
    assert "can't start new thread" in ended.err
    assert "the supervisor has ended" not in ended.err


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_import_that_a_stopped_supervisor_gave_up_is_done_by_the_next(
    project: Project, number: int
) -> None:
    project.write("faults/sitecustomize.py", ENDS_SLOWLY)
    project.write("dag.py", SLOW_AT_FIRST)
    faults = str(project.path("faults"))
    with project.start("run", "dag.py", "--run-id", "r", PYTHONPATH=faults) as process:
        wait_until(project.path("slow").exists)
        os.kill(project.processes("holdfast.runner.supervisor")[0], number)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 0, said
    assert "could not be imported" not in said
