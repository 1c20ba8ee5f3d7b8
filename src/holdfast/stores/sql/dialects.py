"""What differs between SQLite, PostgreSQL and MySQL or MariaDB, and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from holdfast.errors import InvalidInput, MissingDependency

BUSY_TIMEOUT_MS = 60_000


class DatabaseClock(FunctionElement[int]):
    """The database's own clock, in microseconds since 1970."""

    type = sa.BigInteger()
    inherit_cache = True


@compiles(DatabaseClock, "sqlite")
def _sqlite_clock(element: DatabaseClock, compiler: Any, **options: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"


@compiles(DatabaseClock, "postgresql")
def _postgresql_clock(element: DatabaseClock, compiler: Any, **options: Any) -> str:
    return "CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS BIGINT)"


@compiles(DatabaseClock, "mysql", "mariadb")
def _mysql_clock(element: DatabaseClock, compiler: Any, **options: Any) -> str:
    return "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"


now: sa.ColumnElement[int] = sa.func.coalesce(
    sa.bindparam("now", type_=sa.BigInteger()), DatabaseClock()
)
"""The time that a statement goes by: the database's, unless the store was given a clock."""


class Dialect(ABC):
    """One kind of database."""

    driver: ClassVar[str]
    """SQLAlchemy's name for dialect and driver."""
    paramstyle: ClassVar[str] = "pyformat"
    begin: ClassVar[str]
    native_async: ClassVar[bool] = False
    one_statement_set: ClassVar[bool] = False
    """Whether a write to a task store can be a single statement: one round trip instead of four."""
    migration_lock: ClassVar[tuple[str, ...]] = ()
    migration_unlock: ClassVar[tuple[str, ...]] = ()
    """How a process becomes the only one that migrates; SQLite's transaction is enough."""
    extra: ClassVar[str] = ""
    """What to install for it."""

    def engine_options(self) -> dict[str, Any]:
        """Arguments for `create_engine`."""
        return {"pool_size": 8, "max_overflow": 56, "pool_timeout": 60}

    def on_connect(self, connection: Any) -> None:  # noqa: B027  (most need nothing)
        """Prepare a fresh connection of the driver."""

    @abstractmethod
    def upsert(self, table: sa.Table, unique: list[str]) -> Any:
        """INSERT of all but the id, or UPDATE of the row with the same unique columns."""

    @abstractmethod
    def insert_new(self, table: sa.Table) -> Any:
        """INSERT, unless a unique column says that the row exists."""

    def delete_batch(self, table: sa.Table, batch: sa.Select[Any]) -> sa.Delete:
        """DELETE of the rows whose ids the batch selects."""
        return sa.delete(table).where(table.c.id.in_(batch))

    def lock(self, select: sa.Select[Any], table: sa.Table, skip: bool = False) -> sa.Select[Any]:
        """The select with its rows of that table locked; rows that others hold are left out."""
        return select.with_for_update(skip_locked=skip)


def _columns(table: sa.Table) -> list[str]:
    return [column.name for column in table.columns if column.name != "id"]


def _on_conflict_do_update(insert: Any, table: sa.Table, unique: list[str]) -> Any:
    new = insert.values({name: sa.bindparam(name) for name in _columns(table)})
    changes = {name: new.excluded[name] for name in _columns(table) if name not in unique}
    return new.on_conflict_do_update(index_elements=unique, set_=changes)


class SQLite(Dialect):
    driver = "sqlite+pysqlite"
    paramstyle = "named"
    begin = "BEGIN IMMEDIATE"

    def engine_options(self) -> dict[str, Any]:
        return {**super().engine_options(), "connect_args": {"check_same_thread": False}}

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
        return _on_conflict_do_update(sqlite.insert(table), table, unique)

    def insert_new(self, table: sa.Table) -> Any:
        return sqlite.insert(table).on_conflict_do_nothing()


class PostgreSQL(Dialect):
    driver = "postgresql+psycopg"
    begin = "BEGIN"
    native_async = True
    one_statement_set = True
    migration_lock = ("SELECT pg_advisory_xact_lock(7233119451)",)
    extra = "postgres"

    connect_args: ClassVar[dict[str, Any]] = {
        "application_name": "holdfast",
        "connect_timeout": 10,
        "prepare_threshold": 0,
    }

    def engine_options(self) -> dict[str, Any]:
        return {
            **super().engine_options(),
            "isolation_level": "AUTOCOMMIT",
            "connect_args": self.connect_args,
        }

    def upsert(self, table: sa.Table, unique: list[str]) -> Any:
        return _on_conflict_do_update(postgresql.insert(table), table, unique)

    def insert_new(self, table: sa.Table) -> Any:
        return postgresql.insert(table).on_conflict_do_nothing()

    def lock(self, select: sa.Select[Any], table: sa.Table, skip: bool = False) -> sa.Select[Any]:
        return select.with_for_update(skip_locked=skip, of=table)


class MySQL(Dialect):
    driver = "mysql+pymysql"
    begin = "START TRANSACTION"
    # Its DDL commits by itself, so the lock is not the transaction's.
    migration_lock = ("SELECT GET_LOCK('holdfast_migration', 60)",)
    migration_unlock = ("SELECT RELEASE_LOCK('holdfast_migration')",)
    extra = "mysql"

    def engine_options(self) -> dict[str, Any]:
        return {
            **super().engine_options(),
            "isolation_level": "AUTOCOMMIT",
            "connect_args": {"charset": "utf8mb4", "connect_timeout": 10},
        }

    def on_connect(self, connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute("SET time_zone = '+00:00', sql_mode = 'TRADITIONAL'")

    def upsert(self, table: sa.Table, unique: list[str]) -> Any:
        new = mysql.insert(table).values({name: sa.bindparam(name) for name in _columns(table)})
        return new.on_duplicate_key_update(
            {name: new.inserted[name] for name in _columns(table) if name not in unique}
        )

    def insert_new(self, table: sa.Table) -> Any:
        column = list(table.primary_key.columns)[-1]
        return mysql.insert(table).on_duplicate_key_update({column.name: column})

    def delete_batch(self, table: sa.Table, batch: sa.Select[Any]) -> sa.Delete:
        # MariaDB would answer IN with a scan of the whole table; a join uses the ids.
        rows = batch.subquery("batch")
        return sa.delete(table).where(table.c.id == rows.c.id)


_DIALECTS: dict[str, type[Dialect]] = {
    "sqlite": SQLite,
    "postgresql": PostgreSQL,
    "postgres": PostgreSQL,
    "mysql": MySQL,
    "mariadb": MySQL,
}


def parse_url(url: str) -> tuple[sa.URL, Dialect]:
    """The URL with our driver in it, and its dialect."""
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise InvalidInput(
            "the database URL cannot be read",
            hint="it looks like sqlite:///file.db, postgresql://user:password@host/database "
            "or mysql://user:password@host/database",
        ) from None
    kind = _DIALECTS.get(parsed.get_backend_name())
    if kind is None:
        raise InvalidInput(
            f"`{parsed.get_backend_name()}` is not a database that Holdfast works with",
            hint="use sqlite, postgresql or mysql",
        )
    dialect = kind()
    return parsed.set(drivername=dialect.driver), dialect


def make_engine(url: sa.URL, dialect: Dialect) -> sa.Engine:
    """An engine whose connections commit each statement by itself."""
    try:
        engine = sa.create_engine(
            url,
            paramstyle=dialect.paramstyle,
            pool_reset_on_return=None,
            **dialect.engine_options(),
        )
    except ImportError as error:
        raise MissingDependency(
            f"the driver for {url.get_backend_name()} is not installed ({error.name})",
            hint=f'pip install "holdfast[{dialect.extra}]"',
        ) from None
    sa.event.listen(engine, "connect", lambda connection, record: dialect.on_connect(connection))
    return engine
