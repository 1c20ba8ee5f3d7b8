"""The SQL store on SQLite."""

from __future__ import annotations

import pytest
from servers import SqliteDatabase

from holdfast.stores.sql.store import SqlStore
from holdfast.testing import MakeStore, RunConformance, StoreConformance
from holdfast.testing.conformance.fixtures import StoreFixtures


class SqliteFixtures(StoreFixtures):
    history_limit = 4
    modes = ("sync",)

    @pytest.fixture
    def make_store(self, sqlite_database: SqliteDatabase) -> MakeStore:
        return lambda clock: SqlStore(
            sqlite_database.empty(), history_limit=self.history_limit, clock=clock
        )


class TestSqliteStore(SqliteFixtures, StoreConformance):
    pass


class TestSqliteRuns(SqliteFixtures, RunConformance):
    pass
