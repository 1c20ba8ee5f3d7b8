"""SQLite: the embedded store."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.compiler import compiles

from holdfast.stores.sql.dialects.base import DatabaseClock, Dialect, on_conflict_do_update

BUSY_TIMEOUT_MS = 60_000


@compiles(DatabaseClock, "sqlite")
def _sqlite_clock(element: DatabaseClock, compiler: Any, **options: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"


class SQLite(Dialect):
    driver = "sqlite+pysqlite"
    paramstyle = "named"
    embedded = True
    begin = "BEGIN IMMEDIATE"

    def engine_options(self) -> dict[str, Any]:
        return {**super().engine_options(), "connect_args": {"check_same_thread": False}}

    def before_connect(self, url: sa.URL) -> None:
        # One level, for the project's own directory; a longer path may well be a mistake.
        with suppress(OSError):
            Path(url.database or "").parent.mkdir(exist_ok=True)

    def on_connect(self, connection: Any) -> None:
        connection.isolation_level = None
        for pragma in (
            f"busy_timeout = {BUSY_TIMEOUT_MS}",
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    def upsert(self, table: sa.Table, unique: list[str]) -> Any:
        return on_conflict_do_update(sqlite.insert(table), table, unique)

    def insert_new(self, table: sa.Table) -> Any:
        return sqlite.insert(table).on_conflict_do_nothing()
