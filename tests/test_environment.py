"""Environments of the processes that Holdfast starts: secrets are not readable from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from project import Project, new_project, wait_until

from holdfast.environment import SOCKET, start_hidden

KEY = "a-key-of-the-test-that-is-long-enough"
LOOK = """
import json, os
from holdfast.environment import hide
before = open("/proc/self/environ").read()
hide()
print(json.dumps([before, dict(os.environ)]))
"""
WAITING = """
    import os, time
    from holdfast.sdk import DAG, task

    with DAG("d"):

        @task
        def wait():
            open("waiting", "w").close()
            while not os.path.exists("go"):
                time.sleep(0.05)

        wait()
    """


def environment(pid: int) -> bytes:
    """Return the environment that a process started with."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except FileNotFoundError:
        return b""
    except PermissionError:
        pytest.skip("only root can read the environment of a hidden process")


def test_a_hidden_process_gets_its_settings_after_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST__API__SIGNING_KEY", KEY)
    monkeypatch.setenv("PGPASSWORD", KEY)
    monkeypatch.setenv("HOLDFAST__DATABASE__URL", "sqlite:////withheld")
    monkeypatch.setenv("MYSQL_PWD", "caf\udce9")  # not UTF-8
    monkeypatch.setenv("OTHER", "public")

    started = start_hidden(
        [sys.executable, "-c", LOOK],
        without={"HOLDFAST__DATABASE__URL"},
        stdout=subprocess.PIPE,
    )
    out, _ = started.communicate()

    before, after = json.loads(out)
    assert KEY not in before
    assert "HOLDFAST__" not in before
    assert "OTHER=public" in before
    assert (after["HOLDFAST__API__SIGNING_KEY"], after["PGPASSWORD"]) == (KEY, KEY)
    assert (after["MYSQL_PWD"], after["OTHER"]) == ("caf\udce9", "public")
    assert "HOLDFAST__DATABASE__URL" not in after
    assert "HOLDFAST_ENVIRONMENT_SOCKET" not in after


def test_a_process_that_dies_at_once_is_only_dead() -> None:
    started = start_hidden([sys.executable, "-c", ""])

    assert started.wait() == 0


def test_no_process_below_a_run_starts_with_its_secrets(tmp_path: Path) -> None:
    with new_project(tmp_path, HOLDFAST__API__SIGNING_KEY=KEY) as project:
        project.write("dag.py", WAITING)
        with project.start("run", "dag.py", "--run-id", "r") as run:
            wait_until(project.path("waiting").exists)
            found = [environment(pid) for pid in below(project, run.pid)]
            project.path("go").touch()
            _, err = run.communicate(timeout=60)

    assert run.returncode == 0, err
    assert len(found) >= 3
    assert not any(KEY.encode() in each for each in found)


def test_no_process_below_a_server_of_several_starts_with_its_secrets(tmp_path: Path) -> None:
    with (
        new_project(tmp_path, HOLDFAST__API__SIGNING_KEY=KEY) as project,
        project.service("server", "--processes", "2", "--port", "0") as server,
    ):
        wait_until(lambda: "listening on" in project.read("server.err"))
        found = [environment(pid) for pid in below(project, server.pid)]

    assert len(found) >= 3  # two that serve, and multiprocessing's own
    assert not any(KEY.encode() in each for each in found)


def below(project: Project, pid: int) -> list[int]:
    return [one for one in project.processes() if one != pid]


@pytest.mark.parametrize("number", ["\u00b2", "99", "x"])
def test_a_variable_that_names_no_socket_is_an_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    monkeypatch.setenv(SOCKET, number)

    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True)

    assert f"InvalidSettings: the variable {SOCKET} is '{number}'" in done.stderr
