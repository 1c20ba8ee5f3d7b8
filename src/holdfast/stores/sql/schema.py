"""Schema of the database: its revision, and migrations to the current one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from holdfast.errors import HoldfastError, NotFound, SchemaMismatch, StoreUnavailable
from holdfast.stores.sql import failures
from holdfast.stores.sql.dialects import Dialect, connect, make_engine, parse_url
from holdfast.stores.sql.tables import metadata

VERSION_TABLE = "hf_schema_version"
HEAD = "0013"
"""The newest revision, a constant so that opening a store need not read the migrations."""

_SELECT_REVISION = f"SELECT version_num FROM {VERSION_TABLE}"  # noqa: S608
_MIGRATIONS = Path(__file__).parent / "migrations"


def ensure(engine: sa.Engine, url: str) -> None:
    """Raise SchemaMismatch if the schema is not the newest; migrate an embedded database."""
    dialect = parse_url(url)[1]
    current = _current(engine)
    if current == HEAD:
        return
    if current is not None and current not in _known():
        raise _newer(current)
    if dialect.embedded:
        migrate(url)
        return
    state = "has no Holdfast tables" if current is None else f"has schema {current}, not {HEAD}"
    raise SchemaMismatch(f"the database {state}", hint="run `holdfast db migrate`")


def check(url: str) -> tuple[str | None, str]:
    """Return the revision of the database, and the newest. Raise SchemaMismatch if a newer version
    of Holdfast has migrated it."""
    with _engine(url) as (engine, _):
        current = _current(engine)
    if current is not None and current not in _known():
        raise _newer(current)
    return current, HEAD


def migrate(url: str) -> tuple[str | None, str]:
    """Migrate the database to the newest revision; return the revision before and after."""
    from alembic import command

    with _locked(url) as connection:
        before = _current_in(connection)
        if before is not None and before not in _known():
            raise _newer(before)
        if before is None:
            _drop_leftovers(connection)
        if before != HEAD:
            command.upgrade(_config(connection), HEAD)
    return before, HEAD


def downgrade(url: str, revision: str) -> tuple[str | None, str | None]:
    """Downgrade to an older revision, or `base` for none; return the revision before and after."""
    from alembic import command

    if revision != "base" and revision not in _known():
        raise NotFound(
            f"unknown schema revision `{revision}`",
            hint=f"known revisions: base, {', '.join(sorted(_known()))}",
        )
    with _locked(url) as connection:
        before = _current_in(connection)
        if before is not None and before not in _known():
            raise _newer(before)
        if before is not None:
            command.downgrade(_config(connection), revision)
            if revision == "base":
                connection.exec_driver_sql(f"DROP TABLE {VERSION_TABLE}")
        return before, _current_in(connection)


def _drop_leftovers(connection: sa.Connection) -> None:
    """Drop the empty tables that a killed first migration left, because DDL commits implicitly
    there. Raise SchemaMismatch if one has rows."""
    present = set(sa.inspect(connection).get_table_names())
    leftovers = [table for table in reversed(metadata.sorted_tables) if table.name in present]
    for table in leftovers:
        if connection.execute(sa.select(sa.exists(sa.select(1).select_from(table)))).scalar():
            raise SchemaMismatch(
                f"the database has rows in {table.name}, but {VERSION_TABLE} does not contain its "
                "revision",
                hint=f"restore {VERSION_TABLE} from the backup that the rows came from",
            )
    for table in leftovers:
        table.drop(connection)


def _newer(revision: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"the database has schema {revision}, which this version of Holdfast does not know",
        hint="a newer version has migrated it: upgrade Holdfast here too",
    )


def _current(engine: sa.Engine) -> str | None:
    """Return the revision, or None if the database has no tables of ours."""
    # Not through SQLAlchemy's connection, which sends other queries first.
    connection = connect(engine)
    try:
        cursor = connection.cursor()
        cursor.execute(_SELECT_REVISION)
        row = cursor.fetchone()
        cursor.close()
    except Exception as error:
        if failures.is_missing_table(error):
            return None
        raise
    finally:
        connection.close()
    return row[0] if row else None


def _current_in(connection: sa.Connection) -> str | None:
    """Return the revision inside a transaction, which an error would abort."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    row = connection.exec_driver_sql(_SELECT_REVISION).first()
    return row[0] if row else None


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
def _engine(url: str) -> Iterator[tuple[sa.Engine, Dialect]]:
    """Yield an engine; translate driver errors that are raised inside."""
    parsed, dialect = parse_url(url)
    engine = make_engine(parsed, dialect)
    try:
        connect(engine).close()
        yield engine, dialect
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
    """Yield a connection in a transaction that holds the migration lock."""
    with _engine(url) as (engine, dialect), engine.connect() as connection:
        connection.exec_driver_sql(dialect.begin)
        for statement in dialect.migration_lock:
            if connection.exec_driver_sql(statement).scalar() == 0:
                raise StoreUnavailable(
                    "another process is migrating this database", hint="wait until it has finished"
                )
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
