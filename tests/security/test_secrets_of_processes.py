"""Secrets that a task could find in the processes above it, in its environment, or through
Holdfast.

It runs as the same user as they do. Root may read everything; so where the tests run as root, the
commands run without the capabilities to trace others, as root of a container usually does.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PR_CAPBSET_DROP = 24
CAPABILITIES = {"CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38}

CURIOUS = """
import json, os
from holdfast.sdk import DAG, task
import holdfast, holdfast.settings

def attempt(look):
    try:
        return str(look())
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def ancestors():
    pid = os.getppid()
    while pid > 1:
        with open(f"/proc/{pid}/cmdline") as file:
            line = file.read().replace("\\0", " ")
        if "holdfast" not in line or "pytest" in line:
            return
        yield pid, line
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])

def read(path):
    with open(path, "rb") as file:
        return file.read(1 << 20)

with DAG("d"):

    @task
    def look_around():
        seen = {
            "environ": dict(os.environ),
            "settings": attempt(lambda: holdfast.settings.load().database),
            "url": attempt(lambda: holdfast.settings.load().database_url),
            "key": attempt(lambda: holdfast.settings.load().api.signing_key),
            "connect": attempt(lambda: holdfast.connect()),
            "above": [
                {
                    "command": line,
                    "environ": attempt(lambda: read(f"/proc/{pid}/environ")),
                    "memory": attempt(lambda: open(f"/proc/{pid}/mem", "rb").close()),
                    "files": attempt(lambda: os.readlink(f"/proc/{pid}/fd/1")),
                }
                for pid, line in ancestors()
            ],
        }
        with open("seen.json", "w") as file:
            json.dump(seen, file)

    look_around()
"""

SECRETS = {
    "HOLDFAST_TOKEN": "token-of-a-person",
    "PGPASSWORD": "password-of-postgres",
    "MYSQL_PWD": "password-of-mysql",
}


def without_tracing() -> None:
    if os.geteuid() == 0:
        for capability in CAPABILITIES.values():
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def look_around(directory: Path, **environ: str) -> dict[str, Any]:
    """Return the findings of a task that looks for secrets."""
    (directory / "curious.py").write_text(CURIOUS)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")}
    ended = subprocess.run(
        [sys.executable, "-m", "holdfast", "run", "curious.py"],
        cwd=directory,
        env=inherited | environ,
        preexec_fn=without_tracing,
        umask=0o022,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads((directory / "seen.json").read_text())
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_the_processes_above_a_task_cannot_be_read(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'hidden.db'}"

    found = look_around(tmp_path, HOLDFAST__DATABASE__URL=url)

    launcher, supervisor, run = found["above"]
    assert "runner.launcher" in launcher["command"]
    assert url not in launcher["environ"]
    assert "runner.supervisor" in supervisor["command"]
    assert "holdfast run" in run["command"]
    for process in (supervisor, run):
        for what in ("environ", "memory", "files"):
            assert process[what].startswith("PermissionError"), (process["command"], what)


def test_credentials_in_the_runners_environment_do_not_reach_a_task(tmp_path: Path) -> None:
    found = look_around(tmp_path, **SECRETS, WAREHOUSE_PASSWORD="for tasks")

    assert not SECRETS.keys() & found["environ"]
    assert found["environ"]["WAREHOUSE_PASSWORD"] == "for tasks"


@pytest.mark.parametrize("name", ["holdfast.toml", "pyproject.toml"])
def test_holdfast_does_not_tell_a_task_where_the_database_is(name: str, tmp_path: Path) -> None:
    prefix = "" if name == "holdfast.toml" else "tool.holdfast."
    key = "0123456789" * 5
    (tmp_path / name).write_text(
        f'[{prefix}database]\nurl = "sqlite:///{tmp_path}/hidden.db"\n'
        f'[{prefix}api]\nsigning_key = "{key}"\n'
    )

    found = look_around(tmp_path)

    assert "hidden.db" not in json.dumps(found)
    assert key not in json.dumps(found)
    for way in ("url", "connect"):
        assert found[way].startswith("InvalidSettings: a task's process does not know"), way


@pytest.mark.full
def test_holdfast_does_not_open_the_embedded_database_in_a_task(tmp_path: Path) -> None:
    found = look_around(tmp_path)

    assert found["connect"].startswith("InvalidSettings: a task's process does not know")


def test_home_is_private(tmp_path: Path) -> None:
    look_around(tmp_path)

    home = tmp_path / ".holdfast"
    assert (home / "holdfast.db").exists()
    assert (home / "logs").exists()
    assert home.stat().st_mode & 0o777 == 0o700


@pytest.mark.full
def test_home_is_private_with_an_external_database(tmp_path: Path) -> None:
    look_around(tmp_path, HOLDFAST__DATABASE__URL=f"sqlite:///{tmp_path / 'elsewhere.db'}")

    assert (tmp_path / ".holdfast").stat().st_mode & 0o777 == 0o700
