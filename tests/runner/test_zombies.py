"""Zombies: attempts that were stopped, presumed dead and superseded, and then continue."""

from __future__ import annotations

import signal
import time
from datetime import timedelta

from project import Project, send_signal, wait_until

from holdfast import commands as c
from holdfast.model.scope import TaskScope
from holdfast.runner.protocol.parameters import HEARTBEAT

DAG = """
    import os, signal, time
    from holdfast.sdk import DAG, Asset, task

    orders = Asset("orders", uri="file:///orders")

    def attempted(write):
        try:
            write()
        except Exception as error:
            return type(error).__name__
        return "written"

    with DAG("d"):

        @task(outlets=[orders])
        def work(task_store=None, asset_store=None, ti=None):
            number = ti.try_number
            task_store.set("by", number)
            asset_store.set("by", number)
            asset_store.set("staged by", number, on_success=True)
            if number > 1:
                return number
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open("waiting", "w").close()
            while not os.path.exists("go"):
                time.sleep(0.02)
            outcomes = [
                attempted(lambda: task_store.set("by", "the zombie")),
                attempted(lambda: task_store.set("new", "the zombie")),
                attempted(lambda: task_store.delete("by")),
                attempted(lambda: asset_store.set("by", "the zombie")),
                attempted(lambda: asset_store.advance("new", 7)),
                attempted(lambda: asset_store.set("staged by", "the zombie", on_success=True)),
                attempted(lambda: ti.xcom_push(key="new", value="the zombie")),
            ]
            with open("outcomes.new", "w") as file:
                file.write(" ".join(outcomes))
            os.rename("outcomes.new", "outcomes")
            return "the zombie"

        work()
    """


def _stop_all(project: Project) -> list[int]:
    """Stop every process of the project while its task waits."""
    wait_until(project.path("waiting").exists)
    stopped = project.processes()
    send_signal(stopped, signal.SIGSTOP)
    return stopped


def _check_that_the_second_attempt_stands(project: Project) -> None:
    assert project.run_of().state == "success"
    assert project.result("work") == [2]
    assert project.task_store("work") == {"by": 2}
    assert project.asset_store("orders") == {"by": 2, "staged by": 2}
    assert len(project.events("orders")) == 1
    outcomes = [one.outcome for one in project.attempts("work")]
    assert outcomes == ["interrupted", "success"]


def test_the_writes_of_a_zombie_on_another_machine_are_refused(project: Project) -> None:
    project.write("dag.py", DAG)
    project.write(
        "another_machine/sitecustomize.py",
        "import socket\nsocket.gethostname = lambda: 'another machine'\n",
    )
    elsewhere = {"PYTHONPATH": str(project.path("another_machine"))}
    with project.start("run", "dag.py", "--run-id", "r", **elsewhere) as old:
        stopped = _stop_all(project)
        try:
            early = project.holdfast("run", "dag.py", "--run-id", "r")
            _let_the_leases_end(project)
            ended = project.holdfast("run", "dag.py", "--run-id", "r")
            time.sleep(HEARTBEAT)  # a heartbeat is due when it continues
            project.path("go").touch()
        finally:
            send_signal(stopped, signal.SIGCONT)
        wait_until(project.path("outcomes").exists)
        _, said = old.communicate(timeout=30)

    assert early.status == 1 and "another machine" in early.err
    assert ended.status == 0, ended.err
    assert project.read("outcomes") == " ".join(["StaleAttempt"] * 7)
    _check_that_the_second_attempt_stands(project)
    assert project.store.execute(c.GetResults("d", "r", "work", "new")) == ()
    # It finds out by its next heartbeat, or sees before that what the other has come to.
    assert "is now owned by another process" in said or "work attempt 2 success" in said
    assert "Traceback" not in said
    wait_until(lambda: not project.processes())


def _let_the_leases_end(project: Project) -> None:
    """Expire the leases that stopped processes do not renew, as half a minute would."""
    owner = project.run_of().owner
    assert owner is not None
    [attempt] = project.attempts("work")
    renewed = c.Heartbeat(
        process=owner, lease=timedelta(0), runs=(("d", "r"),), attempts=(attempt.writer,)
    )
    assert project.store.execute(renewed) == c.Lost()


def test_a_zombie_on_this_machine_is_ended_by_the_process_that_takes_over(project: Project) -> None:
    project.write("dag.py", DAG)
    with project.start("run", "dag.py", "--run-id", "r") as old:
        stopped = _stop_all(project)
        task = _task_process(project)
        old.kill()
    ended = project.holdfast("run", "dag.py", "--run-id", "r")
    left = project.processes()
    project.path("go").touch()
    send_signal(left, signal.SIGCONT)

    assert ended.status == 0, ended.err
    assert task in stopped and task not in left
    wait_until(lambda: not project.processes(), timeout=10)
    assert project.read("outcomes") == ""
    _check_that_the_second_attempt_stands(project)


def _task_process(project: Project) -> int:
    [attempt] = project.store.execute(c.ListAttempts(TaskScope("d", "r", "work")))
    assert attempt.worker is not None
    return attempt.worker.pid
