"""Fixtures of projects for the runner tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from project import Project, new_project


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
