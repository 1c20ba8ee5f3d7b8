"""`holdfast standalone`: all services in one command."""

from __future__ import annotations

import os
import signal
import socket

import landing
import pytest
from project import Project, wait_until


def _landed(project: Project, name: str, count: int) -> None:
    """Let a file land, and wait until the run that it starts succeeds."""
    project.path(f"landing/{name}").touch()
    wait_until(lambda: len(project.runs("d")) == count)
    wait_until(lambda: project.runs("d")[-1].state == "success")


@pytest.mark.full
def test_the_parts_work_together_and_are_restarted_when_they_die(project: Project) -> None:
    project.write("dags/dag.py", landing.DAG)
    project.path("landing").mkdir()
    with project.service("standalone", "dags") as process:
        wait_until((project.home / "holdfast.db").exists)
        _landed(project, "a", count=1)
        wait_until(lambda: "listening on http" in project.read("standalone.err"))
        [scheduler] = project.processes("holdfast scheduler")
        [triggerer] = project.processes("holdfast triggerer")
        [server] = project.processes("holdfast server")
        os.kill(scheduler, signal.SIGKILL)
        os.kill(triggerer, signal.SIGKILL)
        os.kill(server, signal.SIGKILL)
        _landed(project, "b", count=2)
        wait_until(lambda: project.read("standalone.err").count("listening on http") == 2)
        process.terminate()
        status = process.wait(timeout=30)

        assert status == 0
        assert project.processes() == []
    assert [extra["payload"]["file"] for extra in project.events("landed")] == ["a", "b"]
    said = project.read("standalone.err")
    assert "scheduler ended (-9)" in said and "triggerer ended (-9)" in said
    assert "server ended (-9)" in said
    assert "Traceback" not in said


def test_no_process_is_left_when_standalone_is_killed(project: Project) -> None:
    project.write("dags/dag.py", landing.DAG)
    project.path("landing").mkdir()
    with project.service("standalone", "dags") as process:
        wait_until(lambda: len(project.processes("holdfast.runner.launcher")) >= 3)
        process.kill()
        process.wait()

        wait_until(lambda: not project.processes())


def test_a_missing_directory_is_an_error(project: Project) -> None:
    ended = project.holdfast("standalone", "missing")

    assert ended.status == 1
    assert ended.err.startswith("error: there is no directory missing\nhint: ")


def test_a_port_that_another_program_has_is_an_error_at_the_start(project: Project) -> None:
    project.path("dags").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as other:
        ended = project.holdfast("standalone", "dags", "--port", str(other.getsockname()[1]))

    assert ended.status == 2
    assert "Address already in use" in ended.err and "--port" in ended.err
    assert project.processes() == []


@pytest.mark.full
def test_the_server_listens_at_the_address_of_the_options(project: Project) -> None:
    project.path("dags").mkdir()
    with project.service("standalone", "dags", "--host", "127.0.0.2", "--port", "0"):
        wait_until(lambda: "listening on http://127.0.0.2:" in project.read("standalone.err"))
