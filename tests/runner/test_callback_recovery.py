"""Callbacks during a deploy, an outage, a signal or a timeout."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import pytest
from project import Project, send_signal, wait_until

from holdfast.commands import ListAttempts
from holdfast.model.run import AttemptInfo
from holdfast.model.scope import TaskScope

HEAD = """
import os, signal, time
from datetime import timedelta
from pathlib import Path
from holdfast.sdk import DAG, Asset, task

def note(text):
    print(text)
    with open("notes", "a") as notes:
        notes.write(text + "\\n")

def says(kind):
    def called(context):
        note(f"{kind} {context['ti'].try_number if 'ti' in context else 'run'}")
    return called

def slow(context):
    note("begins")
    time.sleep(3)
    note("ends")

every = dict(
    on_success_callback=says("success"),
    on_failure_callback=says("failure"),
    on_retry_callback=says("retry"),
)
"""
OVERDUE = f"""{HEAD}
with DAG("d", dagrun_timeout=timedelta(seconds=1), on_failure_callback=says("failure")):

    @task(on_success_callback=slow, on_failure_callback=says("failure"), outlets=[Asset("a")])
    def work():
        return 1

    work()
"""
TOO_LONG = f"""{HEAD}
with DAG("d", dagrun_timeout=timedelta(seconds=1)):

    @task(**every)
    def work():
        note("works")
        time.sleep(60)

    work()
"""
FAILS_WHEN_TOLD = f"""{HEAD}
with DAG("d", schedule="@once", on_failure_callback=says("failure")):

    @task(**every)
    def work():
        note("works")
        while not Path("go").exists():
            time.sleep(0.05)
        raise ValueError("boom")

    work()
"""
SLOW_OF_A_RUN = f"""{HEAD}
with DAG("d", schedule="@once", on_success_callback=slow):

    @task
    def work():
        return 1

    work()
"""
SLOW_OF_A_TASK = f"""{HEAD}
with DAG("d", schedule="@once"):

    @task(on_success_callback=slow)
    def work():
        return 1

    work()
"""
RETRIES = f"""{HEAD}
with DAG("d", schedule="@once"):

    @task(retries=1, retry_delay=0, outlets=[Asset("a")], **every)
    def work():
        raise ValueError("boom")

    work()
"""
HANGS = f"""{HEAD}
with DAG("d", schedule="@once"):

    @task(**every)
    def work(i):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note("works")
        time.sleep(60)

    work.expand(i=[0, 1])
"""
CANNOT_MAP = f"""{HEAD}
with DAG("d"):

    @task
    def source():
        return 1

    @task(**every)
    def work(i):
        return i

    work.expand(i=source())
"""
ENDS_AND_GOES = """
import time
from holdfast import commands as c
from holdfast.errors import StoreUnavailable
from holdfast.stores.sql.store import SqlStore

execute, until = SqlStore.execute, []

def execute_and_go(self, command):
    if until and time.monotonic() < until[0]:
        raise StoreUnavailable("the database is away", hint="")
    answer = execute(self, command)
    if isinstance(command, c.FinishAttempt) and not until:
        until.append(time.monotonic() + 2)
        raise StoreUnavailable("the database went away during a commit", hint="")
    return answer

SqlStore.execute = execute_and_go
"""
AWAY_FOR_A_CALLBACK = """
from pathlib import Path
from holdfast import commands as c
from holdfast.errors import StoreUnavailable
from holdfast.stores.sql.store import SqlStore

execute = SqlStore.execute

def execute_or_fail(self, command):
    if isinstance(command, c.GetAsset) and Path("killed").exists() and not Path("away").exists():
        Path("away").touch()
        raise StoreUnavailable("the database is away", hint="")
    return execute(self, command)

SqlStore.execute = execute_or_fail
"""
AWAY_UNTIL_THE_STOP = AWAY_FOR_A_CALLBACK.replace(
    'Path("away").exists():\n        Path("away").touch()', 'Path("stopped").exists():'
)
INTERRUPTS_TWICE = """
from holdfast import commands as r
from holdfast.runner.scheduler import conductor
from holdfast.stores.sql.store import SqlStore

execute, conductor.MOST_INTERRUPTIONS = SqlStore.execute, 1

def execute_again(self, command):
    if isinstance(command, r.InterruptAttempts):
        execute(self, command)  # as where the answer was lost after the commit
    return execute(self, command)

SqlStore.execute = execute_again
"""


@pytest.mark.full
def test_an_ended_task_is_not_failed_by_the_timeout_of_its_run(project: Project) -> None:
    ended = project.run_dag(OVERDUE)

    assert ended.status == 0, ended.err
    assert project.read("notes") == "begins\nends\n"
    assert project.states() == {"work": "success"}
    assert len(project.events("a")) == 1


@pytest.mark.full
def test_tasks_ended_by_the_timeout_of_their_run_have_no_callback(project: Project) -> None:
    ended = project.run_dag(TOO_LONG)

    assert ended.status == 1, ended.err
    assert project.read("notes") == "works\n"
    assert project.states() == {"work": "failed"}


@pytest.mark.full
@pytest.mark.parametrize("deploy", ["import no_such_module\n", "from holdfast.sdk import DAG\n"])
def test_callbacks_wait_for_a_file_that_broke_while_the_task_ran(
    project: Project, deploy: str
) -> None:
    project.write("dags/d.py", FAILS_WHEN_TOLD)
    with project.service("scheduler", "dags"):
        wait_until(lambda: project.read("notes"))
        project.write("dags/d.py", deploy)
        project.write("go", "")
        [run] = project.runs("d")
        wait_until(lambda: project.states("d", run.run_id) == {"work": "failed"}, timeout=30)
        project.write("dags/d.py", FAILS_WHEN_TOLD)
        wait_until(lambda: project.read("notes").count("failure") == 2, timeout=30)

    assert sorted(project.read("notes").splitlines()) == ["failure 1", "failure run", "works"]


@pytest.mark.full
def test_missing_callbacks_of_a_removed_task_are_logged(project: Project) -> None:
    project.write("dags/d.py", FAILS_WHEN_TOLD)
    with project.service("scheduler", "dags"):
        wait_until(lambda: project.read("notes"))
        project.write("dags/d.py", FAILS_WHEN_TOLD.replace("work()", "other()"))
        project.write("go", "")
        wait_until(lambda: "no longer has this task" in project.read("scheduler.err"), timeout=60)


@pytest.mark.full
def test_callbacks_that_wait_for_a_file_are_dropped_with_their_task(project: Project) -> None:
    project.write("dags/d.py", FAILS_WHEN_TOLD)
    with project.service("scheduler", "dags"):
        wait_until(lambda: project.read("notes"))
        project.write("dags/d.py", FAILS_WHEN_TOLD + "raise ValueError")
        project.write("go", "")
        wait_until(lambda: "wait until their DAG file is fixed" in project.read("scheduler.err"))
        project.write("dags/d.py", FAILS_WHEN_TOLD.replace("work()", "other()"))
        wait_until(lambda: "no longer has this task" in project.read("scheduler.err"), timeout=60)

    assert "failure 1" not in project.read("notes")


@pytest.mark.full
@pytest.mark.parametrize("dag", [SLOW_OF_A_RUN, SLOW_OF_A_TASK], ids=["run", "task"])
def test_callbacks_continue_when_all_processes_get_sigterm(project: Project, dag: str) -> None:
    project.write("dags/d.py", dag)
    with project.service("scheduler", "dags") as scheduler:
        wait_until(lambda: project.read("notes"))
        send_signal(project.processes(), signal.SIGTERM)
        scheduler.wait(timeout=30)

    assert project.read("notes") == "begins\nends\n"


@pytest.mark.full
def test_callbacks_are_called_if_the_store_fails_at_the_end_of_the_attempt(
    project: Project,
) -> None:
    project.write("faults/sitecustomize.py", ENDS_AND_GOES)
    project.write("dags/d.py", RETRIES)

    with project.service("scheduler", "dags", PYTHONPATH=str(project.path("faults"))):
        wait_until(lambda: project.read("notes").count("\n") == 2, timeout=30)

    # In either order: callbacks and the next attempt both wait for the store, each by itself.
    assert sorted(project.read("notes").splitlines()) == ["failure 2", "retry 1"]


@pytest.mark.full
def test_callbacks_that_are_called_again_wait_for_the_store(project: Project) -> None:
    project.write("faults/sitecustomize.py", AWAY_FOR_A_CALLBACK)
    slow = RETRIES.replace('on_retry_callback=says("retry")', "on_retry_callback=slow")
    project.write("dag.py", slow)
    faults = str(project.path("faults"))

    with project.start("run", "dag.py", "--run-id", "r", PYTHONPATH=faults) as process:
        wait_until(lambda: project.read("notes"))
        project.write("killed", "")
        os.kill(project.processes("holdfast.runner.supervisor")[0], signal.SIGKILL)
        _, said = process.communicate(timeout=60)

    assert "callbacks of task d/r/work are waiting for the store" in said
    notes = project.read("notes").splitlines()
    assert sorted(notes) == ["begins", "begins", "ends", "failure 2"]


@pytest.mark.full
def test_callbacks_that_a_stopped_supervisor_gave_up_are_called_by_the_next(
    project: Project,
) -> None:
    project.write("faults/sitecustomize.py", AWAY_UNTIL_THE_STOP)
    slow = RETRIES.replace('on_retry_callback=says("retry")', "on_retry_callback=slow")
    project.write("dag.py", slow)
    faults = str(project.path("faults"))

    with project.start("run", "dag.py", "--run-id", "r", PYTHONPATH=faults) as process:
        wait_until(lambda: project.read("notes"))
        project.write("killed", "")
        os.kill(project.processes("holdfast.runner.supervisor")[0], signal.SIGKILL)
        assert process.stderr is not None
        while "are waiting for the store" not in process.stderr.readline():
            pass
        os.kill(project.processes("holdfast.runner.supervisor")[0], signal.SIGTERM)
        project.write("stopped", "")
        process.communicate(timeout=60)

    notes = project.read("notes").splitlines()
    assert sorted(notes) == ["begins", "begins", "ends", "failure 2"]


@pytest.mark.full
def test_callbacks_do_not_depend_on_the_answer_to_an_interruption(project: Project) -> None:
    project.write("faults/sitecustomize.py", INTERRUPTS_TWICE)
    project.write("dags/d.py", HANGS)
    with project.service("scheduler", "dags") as scheduler:
        wait_until(lambda: project.read("notes").count("works") == 2)
        workers = {one.worker for i in (0, 1) for one in _attempts(project, i)}
        supervisor = project.processes("holdfast.runner.supervisor")[0]
        scheduler.kill()
        os.kill(supervisor, signal.SIGKILL)
        scheduler.wait()

    with project.service("scheduler", "dags", PYTHONPATH=str(project.path("faults"))):
        wait_until(lambda: project.read("notes").count("failure 1") == 2, timeout=30)

    assert len(workers) == 2
    assert not {worker.pid for worker in workers if worker} & set(project.processes())


@pytest.mark.full
@pytest.mark.parametrize("state", ["success", "failed"])
def test_a_marked_task_has_no_callback_when_its_supervisor_dies(
    project: Project, state: str
) -> None:
    project.write("dag.py", HANGS.replace("i=[0, 1]", "i=[0]"))
    with project.start("run", "dag.py", "--run-id", "r") as process:
        wait_until(lambda: project.read("notes"))
        instance = ("d", "r", "work", "--map-index", "0")
        marked = project.holdfast("tasks", "mark", *instance, f"--{state}")
        os.kill(project.processes("holdfast.runner.supervisor")[0], signal.SIGKILL)
        process.communicate(timeout=60)

    assert marked.status == 0, marked.err
    assert project.read("notes") == "works\n"
    assert project.states() == {"work[0]": state}


def test_a_task_that_cannot_be_mapped_has_a_callback(project: Project) -> None:
    ended = project.run_dag(CANNOT_MAP)

    assert ended.status == 1
    assert project.read("notes") == "failure 1\n"
    assert "failure 1\n" in project.read(".holdfast/service-logs/callbacks.log")
    assert not project.path(".holdfast/logs/d/r/work").exists()


@pytest.mark.full
def test_a_task_that_cannot_start_is_retried_with_a_pause(project: Project) -> None:
    nowhere = {"HOLDFAST__WORKERS__SERVER_URL": "http://127.0.0.1:9"}
    project.write("dag.py", CANNOT_MAP)

    with project.start(
        "run", "dag.py", "--run-id", "r", HOLDFAST__CORE__RETRY_WINDOW="0", **nowhere
    ) as process:
        with suppress(TimeoutError):
            wait_until(lambda: process.poll() is not None, timeout=8)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)

    assert 1 <= said.count("127.0.0.1:9") <= 15, said


def _attempts(project: Project, index: int) -> tuple[AttemptInfo, ...]:
    [run] = project.runs("d")
    return project.store.execute(ListAttempts(TaskScope("d", run.run_id, "work", index)))


IMPORTING = f"""import helping
{HEAD}
with DAG("d"):

    @task(on_success_callback=says("success"))
    def work():
        note("works")
        while not os.path.exists("go"):
            time.sleep(0.05)

    work()
"""


@pytest.mark.full
def test_callbacks_wait_for_a_module_that_is_missing_for_some_time(project: Project) -> None:
    project.write("lib/helping.py", "")
    project.write("dags/d.py", IMPORTING)
    library = {"PYTHONPATH": str(project.path("lib")), "PYTHONDONTWRITEBYTECODE": "1"}
    with project.service("scheduler", "dags", **library):
        wait_until(lambda: "ready: 1 DAG" in project.read("scheduler.err"))
        project.holdfast("runs", "trigger", "d", "--run-id", "r")
        wait_until(lambda: project.read("notes") == "works\n")
        os.rename(project.path("lib/helping.py"), project.path("away"))
        project.path("go").touch()
        wait_until(lambda: "wait until their DAG file is fixed" in project.read("scheduler.err"))
        time.sleep(20)  # longer than five tries take
        os.rename(project.path("away"), project.path("lib/helping.py"))
        wait_until(lambda: project.read("notes") == "works\nsuccess 1\n", timeout=60)

    assert "are not retried" not in project.read("scheduler.err")
