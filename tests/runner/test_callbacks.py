"""Callbacks of runs and attempts, with outages and kills."""

from __future__ import annotations

import os
import signal

import pytest
from project import Project, wait_until

HEAD = """
import os, signal, time
from pathlib import Path
from holdfast.sdk import DAG, task

def note(text):
    with open("notes", "a") as notes:
        notes.write(text + "\\n")

"""
OF_A_RUN = f"""{HEAD}
def called(context):
    note(f"begins after {{context['reason']!r}}")
    while Path("notes").read_text().count("begins") == 1:
        time.sleep(0.05)
    note("ends")

with DAG("d", on_success_callback=called):

    @task
    def work():
        return 1

    work()
"""
OF_A_TASK = f"""{HEAD}
def called(context):
    ti = context["ti"]
    note(f"begins for {{ti.try_number}} of {{ti.max_tries}} after {{context['reason']!r}}")
    while Path("notes").read_text().count("begins") == 1:
        time.sleep(0.05)
    note("ends")

with DAG("d"):

    @task(retries=1, retry_delay=0, on_retry_callback=called)
    def work(ti=None):
        if ti.try_number == 1:
            raise ValueError("not yet")

    work()
"""
KILLS = f"""{HEAD}
def kills(context):
    note("called")
    launcher = Path(f"/proc/{{os.getppid()}}/stat").read_text()
    os.kill(int(launcher.rpartition(")")[2].split()[1]), signal.SIGKILL)
    time.sleep(60)

with DAG("d", on_success_callback=kills):

    @task
    def work():
        return 1

    work()
"""
QUICK = f"""{HEAD}
with DAG("d", schedule="@once", on_success_callback=lambda context: note("called")):

    @task
    def work():
        return 1

    work()
"""
AWAY_AFTER_THE_END = """
from holdfast import commands as r
from holdfast.errors import StoreUnavailable
from holdfast.stores.sql.store import SqlStore

execute, asked = SqlStore.execute, []

def execute_or_fail(self, command):
    asked.append(type(command))
    if asked[-2:] == [r.FinishRun, r.GetRun] and asked.count(r.FinishRun) == 1:
        raise StoreUnavailable("the database is away", hint="")
    return execute(self, command)

SqlStore.execute = execute_or_fail
"""
ANSWER_LOST = """
import time
from holdfast import commands as r
from holdfast.errors import StoreUnavailable
from holdfast.runner.protocol.parameters import HEARTBEAT
from holdfast.stores.sql.store import SqlStore

execute, ended = SqlStore.execute, []

def execute_and_fail(self, command):
    answer = execute(self, command)
    if isinstance(command, r.FinishRun) and not ended:
        ended.append(command)
        time.sleep(HEARTBEAT)  # so that one is due next
        raise StoreUnavailable("the answer is lost", hint="")
    return answer

SqlStore.execute = execute_and_fail
"""


@pytest.mark.full
@pytest.mark.parametrize("fault", [AWAY_AFTER_THE_END, ANSWER_LOST], ids=["away", "answer lost"])
def test_a_run_that_ends_while_the_database_is_unavailable_calls_back_once(
    project: Project, fault: str
) -> None:
    project.write("faults/sitecustomize.py", fault)
    project.write("dags/quick.py", QUICK)

    with project.service("scheduler", "dags", PYTHONPATH=str(project.path("faults"))):
        wait_until(lambda: project.read("notes"))

    assert "; retrying" in project.read("scheduler.err")
    assert project.read("notes") == "called\n"


@pytest.mark.parametrize("victim", ["holdfast.runner.supervisor", "holdfast.runner.launcher"])
@pytest.mark.parametrize(
    ("dag", "begins"),
    [
        pytest.param(OF_A_RUN, "begins after ''\n", id="run"),
        pytest.param(OF_A_TASK, "begins for 1 of 1 after 'ValueError: not yet'\n", id="task"),
    ],
)
def test_callbacks_killed_with_their_supervisor_are_called_again(
    project: Project, dag: str, begins: str, victim: str
) -> None:
    project.write("dag.py", dag)
    with project.start("run", "dag.py", "--run-id", "r") as process:
        wait_until(lambda: project.read("notes"))
        os.kill(project.processes(victim)[0], signal.SIGKILL)
        _, said = process.communicate(timeout=30)

    assert process.returncode == 0, said
    assert project.read("notes") == begins + begins + "ends\n"
    assert "Traceback" not in said


@pytest.mark.full
def test_callbacks_that_kill_their_supervisor_are_given_up(project: Project) -> None:
    ended = project.run_dag(KILLS)

    assert ended.status == 0, ended.err
    assert project.read("notes") == "called\n" * 5
    assert "callbacks of d/r are not retried: the supervisor died, 5 times" in ended.err
