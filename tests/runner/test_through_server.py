"""Supervisors that use the store through servers, without a database."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa
from alternating import alternating
from project import Project, new_project, wait_until
from servers import Server, postgres_server
from serving import Served

from holdfast import commands as c
from holdfast.model.run import RunState
from holdfast.model.scope import TaskScope

KEY = "a-key-of-the-test-that-is-long-enough"

DAG = """
    import os, time
    from holdfast.sdk import DAG, Asset, task

    orders = Asset("orders")

    with DAG("d"):

        @task(retries=1, retry_delay=0)
        def flaky(ti=None, task_store=None):
            if ti.try_number == 1:
                task_store.set("cursor", 7)
                raise RuntimeError("once")
            return [1, 2, task_store.get("cursor")]

        @task(outlets=[orders])
        def part(number, task_store=None, asset_store=None):
            for step in range(10):
                task_store.set("step", step)
                asset_store.advance("newest", number * 100 + step, on_success=True)
                while os.path.exists("wait"):
                    time.sleep(0.05)
            return number * 2

        @task(outlets=[orders])
        def total(parts, asset_store=None):
            asset_store.set("total", sum(parts), on_success=True)

        total(part.expand(number=flaky()))
    """


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def project(postgres: Server, tmp_path: Path) -> Iterator[Project]:
    environ = {
        "HOLDFAST__DATABASE__URL": postgres.new_database(),
        "HOLDFAST__API__SIGNING_KEY": KEY,
    }
    with new_project(tmp_path, **environ) as project:
        assert project.holdfast("db", "migrate").status == 0
        project.write("dag.py", DAG)
        yield project


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Return the outcome of the same run without a server, in the embedded store."""
    with new_project(tmp_path_factory.mktemp("undisturbed")) as project:
        assert project.run_dag(DAG).status == 0
        return left_by(project)


@pytest.fixture
def servers(project: Project) -> Iterator[list[Served]]:
    """Yield two servers on one database."""
    served = [Served(project), Served(project)]
    yield served
    for one in served:
        one.close()


def left_by(project: Project) -> dict[str, object]:
    return {
        "states": project.states(),
        "results": {task: project.result(task) for task in ("flaky", "part", "total")},
        "task stores": {task: project.task_store(task) for task in ("flaky", "part")},
        "asset": project.asset_store("orders"),
        "attempts": {task: len(project.attempts(task)) for task in ("flaky", "total")},
        "events": len(project.events("orders")),
    }


def environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def test_a_run_through_two_servers_has_the_same_outcome(
    project: Project, servers: list[Served], undisturbed: dict[str, object]
) -> None:
    with alternating([one.port for one in servers]) as port:
        url = {"HOLDFAST__WORKERS__SERVER_URL": f"http://127.0.0.1:{port}"}
        result = project.holdfast("run", "dag.py", "--run-id", "r", **url)

    assert result.status == 0, result.err
    assert left_by(project) == undisturbed


def test_a_run_continues_while_servers_are_killed_and_restarted(
    project: Project, servers: list[Served], undisturbed: dict[str, object]
) -> None:
    project.write("wait", "")
    with alternating([one.port for one in servers]) as port:
        url = {"HOLDFAST__WORKERS__SERVER_URL": f"http://127.0.0.1:{port}"}
        with project.start("run", "dag.py", "--run-id", "r", **url) as run:
            wait_until(lambda: project.task_store("part"))
            servers[0].kill()
            project.path("wait").unlink()
            wait_until(lambda: project.states().get("part[1]"))
            servers[1].kill()
            servers[0].restart()
            assert run.wait(timeout=60) == 0

    assert left_by(project) == undisturbed


def test_workers_have_no_access_to_the_database(project: Project, servers: list[Served]) -> None:
    project.write("wait", "")
    url = {"HOLDFAST__WORKERS__SERVER_URL": f"http://127.0.0.1:{servers[0].port}"}
    with project.start("run", "dag.py", "--run-id", "r", **url) as run:
        wait_until(lambda: project.task_store("part"))
        supervisor, launcher = project.processes(".supervisor"), project.processes(".launcher")
        database = project.environ["HOLDFAST__DATABASE__URL"].encode()

        assert supervisor and launcher
        for pid in supervisor + launcher:
            assert KEY.encode() not in environment(pid)
            assert database not in environment(pid)
            assert not postgres_sockets(pid, project.url)
        project.path("wait").unlink()
        assert run.wait(timeout=60) == 0


def postgres_sockets(pid: int, url: str) -> list[str]:
    """Return the connections of the process to the database's port or socket file."""
    port = sa.make_url(url).port
    connections = psutil.Process(pid).net_connections("all")
    return [
        str(one)
        for one in connections
        if (one.raddr and (getattr(one.raddr, "port", None) == port or "PGSQL" in str(one.raddr)))
    ]


@pytest.mark.full
def test_tokens_that_expired_while_the_server_was_down_cost_no_attempt(
    project: Project, servers: list[Served]
) -> None:
    project.write("wait", "")
    environ = {
        "HOLDFAST__WORKERS__SERVER_URL": f"http://127.0.0.1:{servers[0].port}",
        "HOLDFAST__API__TOKEN_LIFETIME": "4s",
    }
    with project.start("run", "dag.py", "--run-id", "r", **environ) as run:
        parts = c.List(c.TaskFilter("d", "r", "part"))
        wait_until(lambda: len(project.store.execute(parts).found) == 3)
        supervisor = project.processes(".supervisor")
        servers[0].process.send_signal(signal.SIGSTOP)
        project.path("wait").unlink()  # each task waits for the server now
        time.sleep(9.5)
        servers[0].process.send_signal(signal.SIGCONT)
        wait_until(lambda: project.states().get("total"))

        assert project.processes(".supervisor") == supervisor
        assert run.wait(timeout=60) == 0

    assert project.run_of().state is RunState.SUCCESS
    attempts = [c.ListAttempts(TaskScope("d", "r", "part", index)) for index in range(3)]
    assert [len(project.store.execute(one)) for one in attempts] == [1, 1, 1]


@pytest.mark.full
def test_another_signing_key_than_the_servers_is_an_error_at_the_start(
    project: Project, servers: list[Served]
) -> None:
    other = {"HOLDFAST__API__SIGNING_KEY": KEY[::-1]}
    url = {"HOLDFAST__WORKERS__SERVER_URL": servers[0].url}

    result = project.holdfast("run", "dag.py", **other, **url)

    assert (result.status, result.out) == (2, "")
    assert result.err == (
        f"error: the server {servers[0].url} does not accept tokens that are signed here, as its "
        "signing key is another\nhint: set the same [api] signing_key here and on the server\n"
    )
