"""Fixtures that run command lines on a store."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from project import Result

from holdfast.cli import invoke
from holdfast.commands import DeclareAsset, Now, RegisterTask, Set
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import TaskScope
from holdfast.testing.memory_store import MemoryStore


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working directory without configuration."""
    for name in list(os.environ):
        if name.startswith("HOLDFAST"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """Return the store that commands in this process open."""
    store = MemoryStore()
    monkeypatch.setattr("holdfast.connection.open_store", lambda settings, **options: store)
    return store


@pytest.fixture
def holdfast(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Return a function that runs a command line in this process."""

    def call(*args: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = invoke(args)
        return Result(status, *capsys.readouterr())

    return call


@pytest.fixture
def program(project: Path) -> Callable[..., Result]:
    """Return a function that runs a command line in its own process, on a real embedded store."""

    def call(*args: str, stdin: str = "", **environ: str) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *args],
            input=stdin,
            capture_output=True,
            text=True,
            env=os.environ | environ,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def task() -> tuple[str, ...]:
    """Return the options that name a task instance."""
    return ("--dag-id", "etl", "--run-id", "r1", "--task-id", "load")


@pytest.fixture
def orders(store: MemoryStore) -> MemoryStore:
    """Return the store, with an asset `orders` whose watermark was written three times."""
    scope = store.execute(DeclareAsset("orders", "s3://lake/orders")).scope
    for day in ("01", "02", "03"):
        store.execute(Set(scope, "watermark", f'"2026-01-{day}"', ApiWriter("ann")))
    return store


@pytest.fixture
def mapped(store: MemoryStore) -> MemoryStore:
    """Return the store, with a task of three map indices that have one expired and one live key
    each."""
    past = store.execute(Now()) - timedelta(days=1)
    for index in range(3):
        scope = TaskScope("etl", "r1", "load", index)
        store.execute(RegisterTask(scope))
        store.execute(Set(scope, "old key", "1", ApiWriter("ann"), past))
        store.execute(Set(scope, "new key", "2", ApiWriter("ann")))
    return store
