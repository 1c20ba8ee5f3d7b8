"""Fixtures of the security tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from project import Project, new_project
from talk import Served

from holdfast.access.identity import TaskIdentity
from holdfast.connection import open_store
from holdfast.settings import load


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """Yield an empty project; assert that no process of it is left at the end."""
    with new_project(tmp_path) as project:
        yield project


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a server on an embedded store, for the tests of a module."""
    settings = load(tmp_path_factory.mktemp("project"), {})
    served = Served(open_store(settings), settings)
    yield served
    served.close()


@pytest.fixture
def task(served: Served, request: pytest.FixtureRequest) -> TaskIdentity:
    """Return an attempt of the test's own task instance."""
    return served.new_attempt(str(request.node.name)[:200])
