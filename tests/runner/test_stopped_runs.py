"""Runs that users stop and mark while real tasks run."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from project import Project, wait_until

from holdfast import commands as c
from holdfast.model.run import Outcome, RunState, TaskState

HEAD = """\
import os, signal, time
from holdfast.sdk import DAG, Asset, BaseOperator, ResumableJobMixin, task

orders = Asset("orders", uri="file:///orders")

def note(name, text=""):
    with open(name, "a") as notes:
        notes.write(f"{text}\\n")

"""
DAG = (
    HEAD
    + """
class Job(ResumableJobMixin, BaseOperator):
    def execute(self, context):
        return self.execute_resumable(context)

    def submit_job(self, context):
        return "job 7"

    def get_job_status(self, external_id, context):
        return "running"

    def is_job_active(self, status):
        return status == "running"

    def is_job_succeeded(self, status):
        return False

    def poll_until_complete(self, external_id, context):
        note("begun")
        time.sleep(600)

    def get_job_result(self, external_id, context):
        return None

    def cancel_job(self, external_id, context):
        note("cancelled", external_id)


def report(context):
    note("callbacks", context["reason"])


with DAG("d", schedule=None, on_failure_callback=report, max_active_tasks=4):

    @task(retries=5, outlets=[orders])
    def stubborn(asset_store=None):
        asset_store.set("mark", 1, on_success=True)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note("begun")
        time.sleep(600)

    @task(trigger_rule="all_done")
    def after():
        note("after")

    @task
    def item(number):
        note("begun")
        time.sleep(600)

    [stubborn(), Job(task_id="job")] >> after()
    item.expand(number=list(range(40)))
"""
)


@pytest.fixture
def begun(project: Project) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a scheduler that runs as many tasks of run `r` as it may at the same time."""
    project.write("dags/d.py", DAG)
    with project.service("scheduler", "dags") as scheduler:
        wait_until((project.home / "holdfast.db").exists)
        wait_until(lambda: project.store.execute(c.ListDags()))
        assert project.holdfast("runs", "trigger", "d", "--run-id", "r").status == 0
        wait_until(lambda: project.read("begun").count("\n") == 4)
        yield scheduler


def workers(project: Project) -> list[int]:
    """Return the processes of all attempts of run `r` that live."""
    listed = project.store.execute(c.ListTaskInstances(dag_id="d", run_id="r"))
    tried = [one.scope for one in listed if one.attempt]
    attempts = [each for scope in tried for each in project.store.execute(c.ListAttempts(scope))]
    living = set(project.processes())
    return [each.worker.pid for each in attempts if each.worker and each.worker.pid in living]


def test_a_stopped_run_ends_with_all_its_processes_and_jobs(
    project: Project, begun: subprocess.Popen[bytes]
) -> None:
    assert len(workers(project)) == 4

    stopped = project.holdfast("runs", "stop", "d", "r")

    assert (stopped.status, stopped.err) == (0, "Stopped run `r` of `d`.\n")
    assert project.run_of().error.startswith("stopped by api ")
    assert set(project.states().values()) == {TaskState.FAILED}
    assert len(project.tasks()) == 43
    wait_until(lambda: not workers(project), timeout=40)
    assert project.read("cancelled") == "job 7\n"
    assert project.read("begun").count("\n") == 4
    assert [one.outcome for one in project.attempts("stubborn")] == [Outcome.STOPPED]
    assert (project.asset_store("orders"), project.events("orders")) == ({}, [])
    assert project.read("after") + project.read("callbacks") == ""

    again = project.holdfast("runs", "stop", "d", "r")
    assert again.status == 1
    assert "has ended: failed" in again.err
    assert project.holdfast("runs", "trigger", "d", "--run-id", "r2").status == 0
    wait_until(lambda: project.read("begun").count("\n") == 8)
    assert begun.poll() is None, project.read("scheduler.err")
    assert project.holdfast("runs", "mark", "d", "r2", "--success").status == 0
    assert project.holdfast("runs", "delete", "d", "r", "--yes").status == 0


def test_a_scheduler_that_takes_over_leaves_a_stopped_run_alone(
    project: Project, begun: subprocess.Popen[bytes]
) -> None:
    assert project.holdfast("runs", "stop", "d", "r").status == 0
    os.kill(begun.pid, signal.SIGKILL)
    run = project.run_of()

    wait_until(lambda: not project.processes(), timeout=40)
    with project.service("scheduler", "dags"):
        project.write("dags/quick.py", HEAD + QUICK)
        wait_until(lambda: [one.state for one in project.runs("quick")] == [RunState.SUCCESS])

    assert project.run_of() == run
    assert project.read("begun").count("\n") == 4


QUICK = """
with DAG("quick", schedule="@once"):

    @task
    def work():
        pass

    work()
"""


@pytest.mark.full
def test_all_instances_of_a_running_mapped_task_are_marked_at_once(
    project: Project, begun: subprocess.Popen[bytes]
) -> None:
    marked = project.holdfast("tasks", "mark", "d", "r", "item", "--skipped")

    assert marked.err == "Marked 40 instances of task item as skipped.\n"
    assert project.states()["item[39]"] == TaskState.SKIPPED
    wait_until(lambda: len(workers(project)) == 2)
    assert project.run_of().state is RunState.RUNNING
    assert project.holdfast("runs", "stop", "d", "r").status == 0


@pytest.mark.full
def test_a_run_in_the_foreground_ends_when_it_is_stopped(project: Project) -> None:
    with project.start("run", project.write("dag.py", DAG), "--run-id", "r") as running:
        wait_until(lambda: project.read("begun").count("\n") == 4)
        assert project.holdfast("runs", "stop", "d", "r").status == 0
        _, err = running.communicate(timeout=60)

    assert running.returncode == 1
    assert "Traceback" not in err
    assert project.read("callbacks") == ""


@pytest.mark.full
def test_a_run_that_was_stopped_while_queued_is_resumed(project: Project) -> None:
    file = project.write("quick.py", HEAD + QUICK)
    assert project.holdfast("run", file, "--run-id", "first").status == 0
    assert project.holdfast("runs", "trigger", "quick", "--run-id", "r").status == 0
    assert project.holdfast("runs", "stop", "quick", "r").status == 0

    ended = project.holdfast("run", file, "--run-id", "r")
    cleared = project.holdfast("tasks", "clear", "quick", "r", "--failed", "--yes")
    resumed = project.holdfast("run", file, "--run-id", "r")

    assert ended.status == 1
    assert cleared.err.startswith("Queued run `r` of `quick` again: ")
    assert resumed.status == 0, resumed.err
    assert project.tasks("quick", "r")["work"].state is TaskState.SUCCESS


SPARK = """
import os, time
from holdfast.sdk import DAG, task

with DAG("d", schedule=None):

    @task.pyspark
    def compute(spark):
        place = os.path.abspath("beats")

        def beat(rows):
            while True:
                with open(place, "a") as beats:
                    beats.write(".")
                time.sleep(0.1)

        spark.range(0, 1, 1, 1).foreachPartition(beat)

    compute()
"""


@pytest.mark.full
def test_the_spark_work_of_a_stopped_run_is_interrupted(project: Project, elsewhere: str) -> None:
    dag = project.write("dag.py", SPARK)
    with project.start("run", dag, "--run-id", "r", HOLDFAST__SPARK__REMOTE=elsewhere) as running:
        wait_until(lambda: len(project.read("beats")) > 10, timeout=120)
        assert project.holdfast("runs", "stop", "d", "r").status == 0
        running.communicate(timeout=60)

    assert running.returncode == 1
    wait_until(is_still(lambda: project.read("beats")))
    assert project.attempts("compute")[0].outcome is Outcome.STOPPED


def is_still(read: Callable[[], str]) -> Callable[[], bool]:
    """Return a check of whether the text does not grow for a second."""

    def check() -> bool:
        before = read()
        time.sleep(1)
        return read() == before

    return check


LINGERING = (
    HEAD
    + """
with DAG("slow"):

    @task(pool="p", on_success_callback=lambda context: note("callbacks", "success"))
    def work(ti):
        if ti.try_number == 1:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            note("begun")
            time.sleep(600)
        while os.path.exists("lingers"):
            time.sleep(0.05)

    work()

with DAG("big"):

    @task(pool="p", pool_slots=2)
    def both():
        pass

    both()
"""
)


@pytest.mark.full
def test_a_process_that_outlives_its_stop_ends_nothing_of_the_next_attempt(
    project: Project,
) -> None:
    project.write("dags/dags.py", LINGERING)
    assert project.holdfast("pools", "set", "p", "2").status == 0
    project.path("lingers").touch()
    with project.service("scheduler", "dags"):
        wait_until(lambda: "ready: 2 DAGs" in project.read("scheduler.err"))
        project.holdfast("runs", "trigger", "slow", "--run-id", "r")
        wait_until(lambda: project.read("begun"))
        project.holdfast("runs", "stop", "slow", "r")
        project.holdfast("tasks", "clear", "slow", "r", "--failed", "--yes")
        wait_until(lambda: len(project.attempts("work", "slow")) == 2)
        time.sleep(13)  # by then, the process of the first attempt was killed
        project.path("lingers").unlink()
        wait_until(lambda: project.run_of("slow", "r").state.ended)
        project.holdfast("runs", "trigger", "big", "--run-id", "b")
        wait_until(lambda: project.run_of("big", "b").state.ended)

    outcomes = [one.outcome for one in project.attempts("work", "slow")]
    assert outcomes == [Outcome.STOPPED, Outcome.SUCCESS]
    assert project.run_of("big", "b").state is RunState.SUCCESS
    assert project.read("callbacks") == "success\n"
