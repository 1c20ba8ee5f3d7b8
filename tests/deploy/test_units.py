"""systemd units: checked by systemd, and their commands started and stopped as systemd would."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from artefacts import DEPLOY, HOME, PROGRAM, SERVICES, UNITS, environment, unit
from project import Project, new_project, wait_until
from servers import Server

HERE = Path(sys.executable).parent / "holdfast"
TIMERS = sorted((DEPLOY / "systemd").glob("*.timer"))
HARDENING = Path(__file__).parent / "hardening.py"
SOURCE = """
    import time
    from holdfast.sdk import DAG, task

    with DAG("quick"):

        @task
        def count(task_store=None):
            task_store.set("done", True)
            return 3

        @task.pyspark
        def rows(spark):
            return spark.range(7).count()

        count() >> rows()

    with DAG("long"):

        @task
        def wait(task_store=None):
            tries = task_store.get("tries", 0) + 1
            task_store.set("tries", tries)
            while tries == 1:
                time.sleep(0.1)
            return tries

        wait()
    """


@pytest.fixture(scope="module")
def systemd_analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("systemd-analyze is missing (Debian: apt-get install systemd)")
    return found


def verify(systemd_analyze: str, directory: Path, **replaced: str) -> str:
    """Return what systemd says of the units, which have a program that exists."""
    files = []
    for path in [*UNITS, *TIMERS]:
        text = path.read_text().replace(PROGRAM, str(HERE))
        for old, new in replaced.items():
            text = text.replace(old, new)
        file = directory / path.name.replace("@.", "@scheduler.")
        file.write_text(text)
        files.append(str(file))
    done = subprocess.run(
        [systemd_analyze, "verify", "--man=no", *files],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{directory}:/lib/systemd/system"},
    )
    return done.stdout + done.stderr


def test_systemd_accepts_the_units(systemd_analyze: str, tmp_path: Path) -> None:
    assert verify(systemd_analyze, tmp_path) == ""


def test_systemd_finds_a_misspelled_option(systemd_analyze: str, tmp_path: Path) -> None:
    said = verify(systemd_analyze, tmp_path, TimeoutStopSec="TimeoutStopSecs")

    assert "'TimeoutStopSecs'" in said


def test_units_are_hardened(systemd_analyze: str, tmp_path: Path) -> None:
    for path in UNITS:
        file = tmp_path / path.name.replace("@.", "@scheduler.")
        file.write_text(path.read_text().replace(PROGRAM, str(HERE)))
        done = subprocess.run(
            [systemd_analyze, "security", "--offline=yes", "--threshold=30", str(file)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout.splitlines()[-1]


def test_units_leave_what_the_services_need() -> None:
    for path in UNITS:
        options = unit(path).options
        needed = {"MemoryDenyWriteExecute", "ProtectProc", "ProcSubset", "PrivateNetwork"}
        assert needed.isdisjoint(options), path.name
        assert f"{options['WorkingDirectory']}" == HOME == f"/var/lib/{options['StateDirectory']}"


def test_a_task_without_memory_does_not_stop_its_scheduler() -> None:
    policies = {path.name: unit(path).options.get("OOMPolicy") for path in SERVICES}

    assert policies == {
        "holdfast-scheduler.service": "continue",
        "holdfast-server.service": None,
        "holdfast-triggerer.service": "continue",
    }


class Machine:
    """The commands of the units, with the settings of the environment file, in a temporary home."""

    def __init__(self, project: Project, hardened: bool) -> None:
        self.project = project
        self._hardened = hardened
        project.home.mkdir(exist_ok=True)

    def command(self, name: str, **replaced: str) -> list[str]:
        path = DEPLOY / "systemd" / f"{name}.service"
        dags = str(self.project.path("dags"))
        given = [part.replace("/srv/holdfast/dags/current", dags) for part in unit(path).command]
        for old, new in {"%i": "", **replaced}.items():
            given = [part.replace(old, new) for part in given]
        prefix = (
            [
                "unshare",
                "--mount",
                sys.executable,
                str(HARDENING),
                str(path),
                str(self.project.home),
            ]
            if self._hardened
            else []
        )
        return [*prefix, str(HERE), *given]

    def run(self, name: str, **replaced: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(name, **replaced),
            cwd=self.project.home,
            env=self.project.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    @contextmanager
    def service(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        with (
            self.project.path(f"{name}.log").open("ab") as log,
            subprocess.Popen(
                self.command(name),
                cwd=self.project.home,
                env=self.project.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            ) as process,
        ):
            self.project.groups.add(process.pid)
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    process.kill()

    def stop(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """Stop a service as its unit says, within the time that it has."""
        options = unit(DEPLOY / "systemd" / f"{name}.service").options
        assert options["KillMode"] == "mixed"
        assert "KillSignal" not in options
        process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=int(options["TimeoutStopSec"]))
        assert status == 0, self.project.path(f"{name}.log").read_text()


@pytest.mark.full
@pytest.mark.parametrize("hardened", [False, True], ids=["plain", "hardened"])
def test_the_services_of_the_units_start_work_and_stop(
    postgres: Server, tmp_path: Path, hardened: bool
) -> None:
    if hardened:
        _need_hardening()
        # Root without capabilities is an ordinary user, who may not enter the server's directory.
        os.chmod(str(postgres.url.query["host"]), 0o711)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = environment(DEPLOY / "systemd" / "holdfast.env.example") | {
        "HOLDFAST__DATABASE__URL": postgres.new_database(),
        "HOLDFAST__CORE__HOME": str(tmp_path / ".holdfast"),
        "HOLDFAST__API__PORT": str(port),
    }
    with new_project(tmp_path, **given) as project:
        machine = Machine(project, hardened)
        project.write("dags/dags.py", SOURCE)

        refused = machine.run("holdfast-check@", **{"%i": "scheduler"})
        migrated = machine.run("holdfast-migrate")

        assert refused.returncode == 1, refused.stderr
        assert migrated.returncode == 0, migrated.stderr
        assert machine.run("holdfast-migrate").returncode == 0  # again
        with (
            machine.service("holdfast-server") as server,
            machine.service("holdfast-scheduler") as scheduler,
            machine.service("holdfast-triggerer") as triggerer,
        ):
            wait_until(lambda: _health(port).get("scheduler", {}).get("status") == "healthy", 90)
            wait_until(lambda: _health(port).get("triggerer", {}).get("status") == "healthy", 90)
            for kind in ("scheduler", "triggerer"):
                check = machine.run("holdfast-check@", **{"%i": kind})
                assert check.returncode == 0, check.stderr
            wait_until(lambda: project.holdfast("runs", "trigger", "quick").status == 0)
            project.holdfast("runs", "trigger", "long", "--run-id", "r")
            wait_until(lambda: project.runs("quick")[0].state == "success", timeout=120)
            wait_until(lambda: project.task_store("wait", "long").get("tries") == 1)

            assert project.result("rows", "quick", project.runs("quick")[0].run_id) == [7]
            machine.stop("holdfast-scheduler", scheduler)
            assert project.states("long") == {"wait": "scheduled"}
            assert project.run_of("long").owner is None
            with machine.service("holdfast-scheduler") as second:
                wait_until(lambda: project.run_of("long").state == "success")
                machine.stop("holdfast-scheduler", second)
            machine.stop("holdfast-triggerer", triggerer)
            machine.stop("holdfast-server", server)

        assert [one.outcome for one in project.attempts("wait", "long")] == [
            "interrupted",
            "success",
        ]
        wait_until(lambda: not project.processes(), timeout=5)


FORBIDDEN = """
import ctypes, os, socket, sys
tried = [
    lambda: open("/usr/written", "w"),
    lambda: socket.socket(socket.AF_PACKET),
    lambda: os.chroot("/"),
    lambda: ctypes.CDLL(None, use_errno=True).mount(b"a", b"/mnt", b"tmpfs", 0, None) and fail(),
]
def fail():
    raise OSError(ctypes.get_errno(), "")
for one in tried:
    try:
        one()
        print("allowed")
    except OSError as error:
        print(error.errno)
"""


@pytest.mark.full
@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_the_hardening_of_the_tests_is_in_force(path: Path, tmp_path: Path) -> None:
    _need_hardening()
    done = subprocess.run(
        [
            *("unshare", "--mount", sys.executable, HARDENING, path, tmp_path),
            *(sys.executable, "-c", FORBIDDEN),
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    assert list(map(int, done.stdout.split())) == [errno.EROFS, *[errno.EPERM] * 3]


def _health(port: int) -> dict[str, Any]:
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
        found: dict[str, Any] = json.load(answer)
        return found
    return {}


def _need_hardening() -> None:
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "--bind", "/usr", "/usr"], capture_output=True, check=False
    )
    if os.getuid() != 0 or tried.returncode or shutil.which("setpriv") is None:
        pytest.skip("only root can make file systems read-only for a process")
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze, which knows the system calls of a unit, is missing")
