from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scripts import Script


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Script]]:
    """Starts an example in a directory with nothing in it and nothing configured."""
    for name in list(os.environ):
        if name.startswith("HOLDFAST"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    started: list[Script] = []

    def start(name: str, *args: str) -> Script:
        started.append(Script(name, *args))
        return started[-1]

    yield start
    for script in started:
        script.kill()


@pytest.fixture
def run(start: Callable[..., Script]) -> Callable[..., list[str]]:
    """Runs an example to its end; the lines that it printed."""

    def run(name: str, *args: str) -> list[str]:
        script = start(name, *args)
        assert script.finish() == 0, script.lines
        return script.lines

    return run
