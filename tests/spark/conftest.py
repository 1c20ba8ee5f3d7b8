"""The Sparks of the tests here, and processes that use them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import ForkServerContext
from typing import Any, TypeVar

import pytest
from forks import forks
from kept import Kept, await_end, kept_server
from pyspark.sql import SparkSession
from sparks import CONF, session_on

R = TypeVar("R")

# Other tests fork this process, and their children do not use what it has open.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


@pytest.fixture(scope="module", params=["local", "connect", "cluster"])
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A session of each kind."""
    with session_on(request.param, request, tmp_path_factory) as session:
        yield session


@pytest.fixture(scope="session")
def local_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark without a server, as a script has it."""
    place = tmp_path_factory.mktemp("local-spark")
    builder = SparkSession.builder.master("local[2,4]").config(
        map=CONF
        | {
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(place / "warehouse"),
            "spark.local.dir": str(place / "scratch"),
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={place}",
        }
    )
    # It lasts longer than the module that asks first, whose own session may be one of Connect.
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
        patch.chdir(place)  # where its relative paths lead, whichever test uses them
        session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def classic_spark(local_spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The same, in a module whose other tests use sessions of each kind."""
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
    return local_spark


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
    return forks()


@pytest.fixture
def in_process(forking: ForkServerContext) -> Callable[..., Any]:
    """Calls a function in a process of its own."""

    def call(function: Callable[..., R], *arguments: Any) -> R:
        with ProcessPoolExecutor(1, mp_context=forking) as pool:
            return pool.submit(function, *arguments).result()

    return call
