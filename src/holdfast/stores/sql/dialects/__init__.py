"""Differences between SQLite, PostgreSQL and MySQL or MariaDB, and nothing else."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import sqlalchemy as sa

from holdfast.errors import InvalidUrl, MissingDependency
from holdfast.stores.sql.dialects.base import Dialect

__all__ = ["Dialect", "connect", "make_engine", "parse_url"]

_HOMES = {
    "sqlite": "sqlite.SQLite",
    "postgresql": "postgresql.PostgreSQL",
    "postgres": "postgresql.PostgreSQL",
    "mysql": "mysql.MySQL",
    "mariadb": "mysql.MySQL",
}


def parse_url(url: str) -> tuple[sa.URL, Dialect]:
    """Return the URL with our driver, and its dialect. Raise InvalidUrl if it is not supported."""
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidUrl(
            "the database URL cannot be parsed",
            hint="use sqlite:///file.db, postgresql://user:password@host/database or "
            "mysql://user:password@host/database",
        ) from None
    home = _HOMES.get(parsed.get_backend_name())
    if home is None:
        raise InvalidUrl(
            f"`{parsed.get_backend_name()}` is not a database that Holdfast supports",
            hint="use sqlite, postgresql or mysql",
        )
    if not parsed.database and home.startswith("mysql"):
        raise InvalidUrl(
            "the database URL names no database", hint="add its name at the end: mysql://host/state"
        )
    if parsed.database in (None, "", ":memory:") and home.startswith("sqlite"):
        raise InvalidUrl("the SQLite URL names no file", hint="add one: sqlite:///state.db")
    # Imported on demand, because each of them takes a while.
    module, name = home.split(".")
    dialect: Dialect = getattr(import_module(f"{__name__}.{module}"), name)()
    return parsed.set(drivername=dialect.driver), dialect


def make_engine(url: sa.URL, dialect: Dialect, answer_timeout: float | None = None) -> sa.Engine:
    """Return an engine whose connections autocommit. Raise MissingDependency without its driver."""
    try:
        engine = sa.create_engine(
            url,
            paramstyle=dialect.paramstyle,
            poolclass=sa.NullPool,
            pool_reset_on_return=None,
            **dialect.engine_options(answer_timeout),
        )
    except ImportError as error:
        raise MissingDependency(
            f"the driver for {url.get_backend_name()} is not installed ({error.name})",
            hint=f'pip install "holdfast-state[{dialect.extra}]"',
        ) from None
    dialect.before_connect(url)
    sa.event.listen(
        engine, "connect", lambda connection, _: dialect.on_connect(connection, answer_timeout)
    )
    return engine


def connect(engine: sa.Engine) -> Any:
    """Return a new connection of the driver. Raise InvalidUrl if it refuses an option."""
    try:
        return engine.raw_connection()
    except TypeError as error:
        raise InvalidUrl(
            f"the database URL has an option that its driver does not support: {error}",
            hint="check the part after the `?`",
        ) from None
