"""Kills on behalf of clients: only of processes that prove to be tasks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from project import Project, wait_until
from talk import Answer, Served

from holdfast import commands as c
from holdfast.access.identity import Identity, TaskIdentity, UserIdentity, WorkerIdentity
from holdfast.model.role import Role
from holdfast.model.run import Process, TaskState
from holdfast.model.scope import TaskScope
from holdfast.process import MARK, identify, kill_group
from holdfast.wire.codec import JSON

GONE = Process("another machine", 1, "1")
MOMENT = timedelta(microseconds=1)
LEASED = {"worker": identify(os.getpid()), "lease": MOMENT}
DAG = """
    from holdfast.sdk import DAG, task

    with DAG("d"):

        @task
        def work():
            return 1

        work()
    """


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process group that is no task."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.mark.full
@pytest.mark.parametrize("mark", ["", "a mark that it does not have"])
def test_taking_over_a_run_kills_no_process_that_is_not_a_task(
    project: Project, bystander: subprocess.Popen[bytes], mark: str
) -> None:
    project.write("dag.py", DAG)
    project.holdfast("db", "migrate")
    project.store.execute(c.CreateRun(dag_id="d", run_id="r"))
    project.store.execute(c.ClaimRun(dag_id="d", run_id="r", process=GONE, lease=MOMENT))
    change = c.TaskChange("work", -1, TaskState.SCHEDULED)
    project.store.execute(c.ChangeTasks("d", "r", GONE, (change,)))
    claimed = identify(bystander.pid, mark)
    project.store.execute(c.StartAttempt(TaskScope("d", "r", "work"), claimed, MOMENT))

    ended = project.holdfast("run", "dag.py", "--run-id", "r")

    assert ended.status == 0, ended.err
    assert [one.outcome for one in project.attempts("work")] == ["interrupted", "success"]
    assert bystander.poll() is None


@pytest.fixture
def tasks() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Yield processes of one launcher's tasks."""
    environ = os.environ | {MARK: "of this launcher"}
    sleep = ["sleep", "600"]
    tasks = [subprocess.Popen(sleep, env=environ, start_new_session=True) for _ in range(3)]
    # A process that has just executed another program has no environment for a moment.
    wait_until(lambda: all(Path(f"/proc/{task.pid}/environ").read_bytes() for task in tasks))
    yield tasks
    for task in tasks:
        task.kill()
        task.wait()


def test_a_process_is_killed_only_by_its_own_mark(tasks: list[subprocess.Popen[bytes]]) -> None:
    first, second, third = (identify(task.pid, "of this launcher") for task in tasks)

    kill_group(msgspec.structs.replace(first, mark="of another launcher"))
    kill_group(msgspec.structs.replace(second, started="before"))
    kill_group(third)

    assert tasks[2].wait(timeout=60) == -9
    assert [task.poll() for task in tasks] == [None, None, -9]


@pytest.mark.parametrize("role", [Role.EDITOR, Role.ADMIN])
@pytest.mark.parametrize("field", LEASED)
def test_users_may_not_set_the_process_of_an_attempt(
    served: Served, task: TaskIdentity, role: Role, field: str
) -> None:
    start = c.StartAttempt(task.scope, **{field: LEASED[field]})

    answer = _send(served, start, UserIdentity("mallory", role))

    assert (answer.status, answer.reason) == (403, "forbidden")
    assert "`worker` and `lease`" in answer.json["detail"]["hint"]


def test_users_start_attempts_and_workers_set_their_process(
    served: Served, task: TaskIdentity
) -> None:
    by_person = _send(served, c.StartAttempt(task.scope), UserIdentity("ed", Role.EDITOR))
    by_worker = _send(served, c.StartAttempt(task.scope, **LEASED), WorkerIdentity("w1"))

    assert (by_person.status, by_worker.status) == (200, 200)


def _send(served: Served, command: c.StartAttempt, identity: Identity) -> Answer:
    return served.ask("POST", "/execution/commands", JSON.encode(command), token=identity)
