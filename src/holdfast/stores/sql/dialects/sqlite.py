"""SQLite: the embedded store."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.compiler import compiles

from holdfast.process import PRIVATE
from holdfast.stores.sql.dialects.base import DatabaseClock, Dialect

BUSY_TIMEOUT_MS = 60_000
MOST_MAPPED_BYTES = 8 * 2**30
"""Read through the page cache, so that a lookup costs the same in large files as in small ones."""


@compiles(DatabaseClock, "sqlite")
def _sqlite_clock(element: DatabaseClock, compiler: Any, **options: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"


class SQLite(Dialect):
    driver = "sqlite+pysqlite"
    paramstyle = "named"
    embedded = True
    begin = "BEGIN IMMEDIATE"
    snapshot = ("BEGIN",)

    connect_args: ClassVar[dict[str, Any]] = {"check_same_thread": False}

    def engine_options(self, answer_timeout: float | None) -> dict[str, Any]:
        return {"connect_args": self.connect_args}

    def before_connect(self, url: sa.URL) -> None:
        # Only one level, for the project's own directory; a longer path may well be a mistake.
        with suppress(OSError):
            Path(url.database or "").parent.mkdir(PRIVATE, exist_ok=True)

    def on_connect(self, connection: Any, answer_timeout: float | None) -> None:
        connection.isolation_level = None
        # An interrupt does not end a wait for another process.
        patience = BUSY_TIMEOUT_MS if answer_timeout is None else int(answer_timeout * 1000)
        connection.execute(f"PRAGMA busy_timeout = {patience}")
        _switch_to_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA mmap_size = {MOST_MAPPED_BYTES}")

    def insert(self, table: sa.Table) -> Any:
        return sqlite.insert(table)

    def interrupt(self, connection: Any) -> None:
        connection.interrupt()


def _switch_to_wal(connection: Any) -> None:
    """Switch the file to WAL, once for each file. Retry while another process locks it, since the
    busy timeout does not apply to this statement."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
