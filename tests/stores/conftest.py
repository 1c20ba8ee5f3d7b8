"""Stores for the tests of runs, with a clock to advance, on each database and on a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from served import AnyIdentityStore, ServedStores, serving_stores

from holdfast.store import Store
from holdfast.stores.sql import SqlStore
from holdfast.testing import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStores]:
    """Yield a server that is shared by the tests."""
    with serving_stores(tmp_path_factory.mktemp("home")) as served:
        yield served


@pytest.fixture(params=["sqlite", "postgres", "mariadb", "http"])
def store(request: pytest.FixtureRequest, clock: Clock) -> Iterator[Store]:
    if request.param == "http":
        served = request.getfixturevalue("served")
        served.store.become(
            SqlStore(request.getfixturevalue("sqlite_database").empty(), clock=clock)
        )
        opened: Store = AnyIdentityStore(served)
    else:
        database = request.getfixturevalue(f"{request.param}_database")
        opened = SqlStore(database.empty(), clock=clock)
    with opened:
        yield opened
