"""Fixtures of projects for the runner tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from project import Project, new_project

from holdfast.spark.session.address import SparkAddress, SparkStartup

KEEPER = Path(__file__).parents[1] / "spark" / "keeper.py"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """Yield an empty project; assert that no process of it is left at the end."""
    with new_project(tmp_path) as project:
        yield project


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Project]]:
    """Yield a function that creates projects for several tests of a module."""
    with ExitStack() as projects:
        yield lambda **environ: projects.enter_context(
            new_project(tmp_path_factory.mktemp("project"), **environ)
        )


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield a Spark that does not belong to the run."""
    startup = SparkStartup(
        master="local[2]", conf={}, directory=str(tmp_path_factory.mktemp("spark"))
    )
    with subprocess.Popen(
        [sys.executable, KEEPER, msgspec.json.encode(startup).decode()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
    ) as keeper:
        assert keeper.stdout is not None
        address = msgspec.json.decode(keeper.stdout.readline(), type=SparkAddress)
        yield f"sc://localhost:{address.port}/;token={address.token}"
        os.killpg(keeper.pid, signal.SIGKILL)
