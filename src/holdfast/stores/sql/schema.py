"""The database's schema: which revision it has, and bringing it to the one that we work with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from holdfast.errors import HoldfastError, NotFound, SchemaMismatch
from holdfast.stores.sql import failures
from holdfast.stores.sql.dialects import Dialect, make_engine, parse_url

VERSION_TABLE = "hf_schema_version"
HEAD = "0001"
"""The newest revision. Kept here, so that opening a store needs no look at the migrations."""

_MIGRATIONS = Path(__file__).parent / "migrations"


def ensure(url: str) -> None:
    """Refuse a database whose schema is not ours; an SQLite file is brought up to date."""
    current, head = check(url)
    if current == head:
        return
    if current is not None and current not in _known():
        raise _newer(current)
    if parse_url(url)[1].embedded:
        migrate(url)
        return
    state = "has no Holdfast tables" if current is None else f"has schema {current}, not {head}"
    raise SchemaMismatch(f"the database {state}", hint="run `holdfast db migrate`")


def check(url: str) -> tuple[str | None, str]:
    """The revision that the database has, and the newest."""
    with _connection(url) as (connection, _):
        return _current(connection), HEAD


def migrate(url: str) -> tuple[str | None, str]:
    """Bring the database to the newest revision; the revision before and after."""
    from alembic import command

    with _locked(url) as connection:
        before = _current(connection)
        if before is not None and before not in _known():
            raise _newer(before)
        if before != HEAD:
            command.upgrade(_config(connection), HEAD)
    return before, HEAD


def downgrade(url: str, revision: str) -> tuple[str | None, str | None]:
    """Take the database back to an older revision, or `base` for none."""
    from alembic import command

    if revision != "base" and revision not in _known():
        raise NotFound(
            f"there is no schema revision `{revision}`",
            hint=f"known: base, {', '.join(sorted(_known()))}",
        )
    with _locked(url) as connection:
        before = _current(connection)
        if before is not None and before not in _known():
            raise _newer(before)
        if before is not None:
            command.downgrade(_config(connection), revision)
        return before, _current(connection)


def _newer(revision: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"the database has schema {revision}, which this version of Holdfast does not know",
        hint="a newer version has migrated it: upgrade holdfast here too",
    )


def _current(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(
        sa.text(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608
    ).scalar()


@cache
def _known() -> frozenset[str]:
    return frozenset(path.name[:4] for path in (_MIGRATIONS / "versions").glob("[0-9]*.py"))


def _config(connection: sa.Connection) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


@contextmanager
def _connection(url: str) -> Iterator[tuple[sa.Connection, Dialect]]:
    """A connection of its own, whose driver's errors come out as ours."""
    parsed, dialect = parse_url(url)
    engine = make_engine(parsed, dialect)
    try:
        with engine.connect() as connection:
            yield connection, dialect
    except HoldfastError:
        raise
    except Exception as error:
        if failures.is_driver_error(error):
            raise failures.translate(error, parsed) from error
        raise
    finally:
        engine.dispose()


@contextmanager
def _locked(url: str) -> Iterator[sa.Connection]:
    """A connection in a transaction, as the only one that migrates."""
    with _connection(url) as (connection, dialect):
        connection.exec_driver_sql(dialect.begin)
        for statement in dialect.migration_lock:
            connection.exec_driver_sql(statement)
        try:
            yield connection
            connection.exec_driver_sql("COMMIT")
        except BaseException:
            if not connection.invalidated:
                connection.exec_driver_sql("ROLLBACK")
            raise
        finally:
            for statement in dialect.migration_unlock:
                connection.exec_driver_sql(statement)
