"""The SQL store on MariaDB."""

from __future__ import annotations

import pytest
from servers import ServerDatabase

from holdfast.stores.sql.store import SqlStore
from holdfast.testing import MakeStore, RunConformance, StoreConformance
from holdfast.testing.conformance.fixtures import StoreFixtures


class MariadbFixtures(StoreFixtures):
    history_limit = 4
    modes = ("sync",)

    @pytest.fixture
    def make_store(self, mariadb_database: ServerDatabase) -> MakeStore:
        return lambda clock: SqlStore(
            mariadb_database.empty(), history_limit=self.history_limit, clock=clock
        )


class TestMariadbStore(MariadbFixtures, StoreConformance):
    pass


class TestMariadbRuns(MariadbFixtures, RunConformance):
    pass
