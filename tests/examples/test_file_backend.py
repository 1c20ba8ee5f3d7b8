"""Conformance of the file backend of the examples."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from scripts import EXAMPLES
from servers import SqliteDatabase

from holdfast.store import Store
from holdfast.stores.sql import SqlStore
from holdfast.testing import Clock, MakeStore
from holdfast.testing.conformance.attempts import Attempts
from holdfast.testing.conformance.content import Content
from holdfast.testing.conformance.declared_gaps import Gaps
from holdfast.testing.conformance.entries import Entries
from holdfast.testing.conformance.expiry import Expiry
from holdfast.testing.gaps import WITHOUT_OPTIONAL_METHODS

FileBackend = runpy.run_path(str(EXAMPLES / "custom_backend.py"))["FileBackend"]


class TestFileBackend(Gaps, Entries, Content, Expiry, Attempts):
    gaps = WITHOUT_OPTIONAL_METHODS

    @pytest.fixture
    def make_store(self, sqlite_database: SqliteDatabase, tmp_path: Path) -> MakeStore:
        def make(clock: Clock) -> Store:
            ledger = SqlStore(sqlite_database.empty(), clock=clock)
            store: Store = FileBackend(tmp_path / "values", clock).open(ledger)
            return store

        return make
