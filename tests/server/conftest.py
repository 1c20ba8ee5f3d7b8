"""Fixtures of servers and attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from talk import Served

from holdfast.access.identity import TaskIdentity
from holdfast.connection import open_store
from holdfast.settings import Settings, load


@pytest.fixture(scope="module")
def served(make_served: Callable[..., Served]) -> Served:
    """Return a server on an embedded store, for the tests of a module."""
    return make_served()


@pytest.fixture(scope="module")
def make_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Served]]:
    """Yield a function that starts servers with settings such as `api__rate_limit="5"`."""
    started: list[Served] = []

    def make(**settings: str) -> Served:
        environ = {f"HOLDFAST__{name.upper()}": text for name, text in settings.items()}
        found = load(tmp_path_factory.mktemp("project"), environ)
        started.append(Served(open_store(found), found))
        return started[-1]

    yield make
    for served in started:
        served.close()


@pytest.fixture
def task(served: Served, request: pytest.FixtureRequest) -> TaskIdentity:
    """Return an attempt of the test's own task instance."""
    return served.new_attempt(str(request.node.name)[:200])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return the settings of an empty directory."""
    return load(tmp_path, {})
