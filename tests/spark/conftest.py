"""Spark sessions and servers of the tests, and processes that use them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import ForkServerContext
from typing import Any, TypeVar

import pytest
from forks import forks
from kept import Kept, await_end, kept_server
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from sparks import CONF, session_on

R = TypeVar("R")

# Other tests fork this process, and their children do not use its open files.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


@pytest.fixture(scope="module", params=["local", "connect", "cluster"])
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """Yield a session of each kind."""
    with session_on(request.param, request, tmp_path_factory) as session:
        yield session


@pytest.fixture(scope="session")
def local_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a classic Spark session, as in a script."""
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
    # It outlives the module that asks first, whose own session may be one of Connect.
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
        patch.chdir(place)  # the base of its relative paths, whichever test uses them
        session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def classic_spark(
    request: pytest.FixtureRequest, local_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SparkSession]:
    """Yield a classic session, in a module whose other tests use sessions of each kind. Functions
    of the module run on its executors."""
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
    was_registered = request.module.__name__ in cloudpickle.list_registry_pickle_by_value()
    cloudpickle.register_pickle_by_value(request.module)
    yield local_spark
    if not was_registered:
        cloudpickle.unregister_pickle_by_value(request.module)


@pytest.fixture(scope="session")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """Yield a local server; assert that no process of it is left at the end."""
    with kept_server(tmp_path_factory.mktemp("spark")) as server:
        yield server
        processes = server.processes()
    assert await_end(processes) == []


@pytest.fixture(scope="session")
def forking() -> ForkServerContext:
    """Return a context of processes forked from one that has loaded Spark, not from pytest's: that
    one may fork again for other tests, and may therefore not use Spark itself."""
    return forks()


@pytest.fixture
def in_process(forking: ForkServerContext) -> Callable[..., Any]:
    """Return a function that calls a function in a separate process."""

    def call(function: Callable[..., R], *arguments: Any) -> R:
        with ProcessPoolExecutor(1, mp_context=forking) as pool:
            return pool.submit(function, *arguments).result()

    return call
