"""A store for the tests of runs, on each database, by a clock that they move."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.stores.sql import SqlStore
from holdfast.testing import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(database_url: str, clock: Clock) -> Iterator[SqlStore]:
    with SqlStore(database_url, clock=clock) as store:
        yield store
