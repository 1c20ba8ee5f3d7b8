"""The backend of the example, held against the suite that every store passes."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest
from scripts import EXAMPLES

from holdfast.store import Store
from holdfast.stores.sql import SqlStore
from holdfast.testing import Clock, MakeStore, StoreConformance
from servers import SqliteDatabase

FileBackend = runpy.run_path(str(EXAMPLES / "custom_backend.py"))["FileBackend"]


class TestFileBackend(StoreConformance):
    picklable = False

    @pytest.fixture
    def make_store(self, sqlite_database: SqliteDatabase, tmp_path: Path) -> MakeStore:
        def make(clock: Clock) -> Store:
            shutil.rmtree(tmp_path / "values", ignore_errors=True)
            backend = FileBackend(tmp_path / "values", clock)
            store: Store = backend.open(SqlStore(sqlite_database.empty(), clock=clock))
            return store

        return make
