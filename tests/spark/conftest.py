"""One Spark server for all tests here, and processes that use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import ForkServerContext
from typing import Any, TypeVar

import pytest
from kept import Kept, await_end, kept_server

from forks import FORKS

R = TypeVar("R")


@pytest.fixture(scope="session")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """A local server. Nothing may be left of it at the end."""
    with kept_server(tmp_path_factory.mktemp("spark")) as server:
        yield server
        processes = server.processes()
    assert await_end(processes) == []


@pytest.fixture(scope="session")
def forking() -> ForkServerContext:
    """Processes forked from one that has loaded Spark, not from pytest's: that one may fork again
    for other tests, and may therefore not speak to Spark itself."""
    return FORKS


@pytest.fixture
def in_process(forking: ForkServerContext) -> Callable[..., Any]:
    """Calls a function in a process of its own."""

    def call(function: Callable[..., R], *arguments: Any) -> R:
        with ProcessPoolExecutor(1, mp_context=forking) as pool:
            return pool.submit(function, *arguments).result()

    return call
