"""Fixtures that run the examples as processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scripts import EXAMPLES, Program, Run


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Program]]:
    """Yield a list of programs that end with the test, in an empty, unconfigured directory."""
    for name in list(os.environ):
        if name.startswith("HOLDFAST"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    programs: list[Program] = []
    yield programs
    for program in programs:
        program.stop()


@pytest.fixture
def start(started: list[Program]) -> Callable[..., Program]:
    """Return a function that starts `holdfast run` of an example."""

    def start(name: str, *args: str) -> Program:
        started.append(Run(name, *args))
        return started[-1]

    return start


@pytest.fixture
def run(start: Callable[..., Program]) -> Callable[..., None]:
    """Return a function that runs an example until it succeeds."""

    def run(name: str, *args: str) -> None:
        program = start(name, *args)
        assert program.finish() == 0, program.lines

    return run


@pytest.fixture
def serve(started: list[Program]) -> Callable[..., Program]:
    """Return a function that starts a service of Holdfast on a directory with one example in it."""

    def serve(part: str, name: str) -> Program:
        Path("dags").mkdir(exist_ok=True)
        Path("dags", f"{name}.py").write_text((EXAMPLES / f"{name}.py").read_text())
        started.append(Program("-m", "holdfast", part, "dags"))
        return started[-1]

    return serve


@pytest.fixture
def script(started: list[Program]) -> Callable[..., Program]:
    """Return a function that starts an example that is a script."""

    def script(name: str, *args: str) -> Program:
        started.append(Program(str(EXAMPLES / "scripts" / f"{name}.py"), *args))
        return started[-1]

    return script
