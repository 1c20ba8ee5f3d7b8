from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow_client import Airflow, running_airflow
from holdfast_server import HoldfastServer, running_server


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """A process with Airflow in it."""
    with running_airflow(tmp_path_factory.mktemp("airflow")) as airflow:
        yield airflow


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HoldfastServer]:
    """A server of ours: the test runs on each kind of database."""
    database_url: str = request.getfixturevalue(f"{request.param}_database").empty()
    directory: Path = tmp_path_factory.mktemp("server")
    with running_server(database_url, directory) as server:
        yield server
