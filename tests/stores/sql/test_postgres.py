"""The SQL store on PostgreSQL."""

from __future__ import annotations

import pytest
from servers import ServerDatabase

from holdfast.stores.sql.store import SqlStore
from holdfast.testing import MakeStore, RunConformance, StoreConformance
from holdfast.testing.conformance.fixtures import StoreFixtures


class PostgresFixtures(StoreFixtures):
    history_limit = 4

    @pytest.fixture
    def make_store(self, postgres_database: ServerDatabase) -> MakeStore:
        return lambda clock: SqlStore(
            postgres_database.empty(), history_limit=self.history_limit, clock=clock
        )


class TestPostgresStore(PostgresFixtures, StoreConformance):
    pass


class TestPostgresRuns(PostgresFixtures, RunConformance):
    pass
