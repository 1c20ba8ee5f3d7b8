"""Errors on opening a store: one line with the reason, and a hint."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from clarity import refusal
from servers import Server

from holdfast.errors import (
    InvalidUrl,
    MissingDependency,
    SchemaMismatch,
    StoreUnavailable,
)
from holdfast.stores.sql import SqlStore, schema


@pytest.fixture
def closed_port() -> int:
    """Return a port of this machine that has no listener."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(params=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def administrator(server: Server) -> Iterator[sa.Connection]:
    engine = sa.create_engine(server.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        yield connection


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_opening_a_store_on_an_unavailable_database_is_an_error(
    scheme: str, closed_port: int
) -> None:
    url = f"{scheme}://ann:secret@127.0.0.1:{closed_port}/state"
    error = refusal(StoreUnavailable, SqlStore, url)
    assert f"127.0.0.1:{closed_port}" in error.message
    assert "does not answer" in error.message


@pytest.mark.filterwarnings("ignore:unclosed <socket")  # PyMySQL leaves the socket open
@pytest.mark.parametrize(
    "url",
    ["postgresql:///state?host=/no/such/directory", "mysql:///state?unix_socket=/no/such/socket"],
)
def test_opening_a_store_on_a_missing_socket_is_an_error(url: str) -> None:
    assert "does not answer" in refusal(StoreUnavailable, SqlStore, url).message


@pytest.mark.parametrize(
    "url",
    [
        "",
        "state.db",
        "postgresql://host:port/state",
        "postgresql//host/state",
        "oracle://host/state",
        "http://127.0.0.1:8793",
    ],
)
def test_opening_an_unsupported_url_is_an_error(url: str) -> None:
    assert "postgresql" in refusal(InvalidUrl, SqlStore, url).hint


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_store_needs_a_file(url: str) -> None:
    refusal(InvalidUrl, SqlStore, url)


def test_an_unknown_driver_option_is_an_error(server: Server) -> None:
    url = server.url.update_query_dict({"colour": "red"}).set(database="state")
    error = refusal(InvalidUrl, SqlStore, url.render_as_string(hide_password=False))
    assert "colour" in error.message


def test_opening_a_missing_database_is_an_error(server: Server) -> None:
    url = server.url.set(database="nowhere").render_as_string(hide_password=False)
    error = refusal(StoreUnavailable, SqlStore, url)
    assert "nowhere" in error.message
    assert "database name" in error.hint


def test_opening_a_url_without_database_is_an_error(mariadb: Server) -> None:
    url = mariadb.url.render_as_string(hide_password=False)
    assert "database" in refusal(InvalidUrl, SqlStore, url).message


@pytest.fixture
def guarded_url(server: Server, administrator: sa.Connection) -> Iterator[sa.URL]:
    """Yield the URL for a user whose password is `right`."""
    database = sa.make_url(server.new_database()).database
    if administrator.dialect.name == "postgresql":
        administrator.exec_driver_sql("CREATE ROLE guarded LOGIN PASSWORD 'right'")
        file = Path(str(administrator.exec_driver_sql("SHOW hba_file").scalar()))
        rules = file.read_text()
        file.write_text(f"local all guarded scram-sha-256\n{rules}")
        administrator.exec_driver_sql("SELECT pg_reload_conf()")
        yield server.url.set(username="guarded", database=database)
        file.write_text(rules)
        administrator.exec_driver_sql("SELECT pg_reload_conf()")
        administrator.exec_driver_sql("DROP ROLE guarded")
    else:
        administrator.exec_driver_sql("CREATE USER guarded@localhost IDENTIFIED BY 'right'")
        administrator.exec_driver_sql(f"GRANT ALL ON {database}.* TO guarded@localhost")
        yield server.url.set(username="guarded", database=database)
        administrator.exec_driver_sql("DROP USER guarded@localhost")


def test_opening_a_store_with_a_wrong_password_is_an_error(guarded_url: sa.URL) -> None:
    url = guarded_url.set(password="wr0ng")
    error = refusal(StoreUnavailable, SqlStore, url.render_as_string(hide_password=False))
    assert "guarded" in error.message
    assert "wr0ng" not in str(error)
    assert "password" in error.hint
    right = guarded_url.set(password="right").render_as_string(hide_password=False)
    refusal(SchemaMismatch, SqlStore, right)


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_no_message_shows_a_password(scheme: str, closed_port: int) -> None:
    url = f"{scheme}://ann:hidden@127.0.0.1:{closed_port}/state?password=hidden"
    assert "hidden" not in str(refusal(StoreUnavailable, SqlStore, url))


def test_opening_a_database_that_is_not_migrated_is_an_error(server: Server) -> None:
    error = refusal(SchemaMismatch, SqlStore, server.new_database())
    assert "holdfast db migrate" in error.hint


def test_opening_a_database_migrated_by_a_newer_version_is_an_error(database_url: str) -> None:
    engine = sa.create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'"))
    try:
        for opened in (SqlStore, schema.migrate, schema.check):
            error = refusal(SchemaMismatch, opened, database_url)
            assert "9999" in error.message
            assert "upgrade Holdfast" in error.hint
        refusal(SchemaMismatch, schema.downgrade, database_url, "base")
    finally:
        with engine.begin() as connection:
            restore = sa.text(f"UPDATE {schema.VERSION_TABLE} SET version_num = :head")
            connection.execute(restore, {"head": schema.HEAD})
        engine.dispose()


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [
        ("postgresql://127.0.0.1/state", "psycopg", "postgres"),
        ("mysql://127.0.0.1/state", "pymysql", "mysql"),
    ],
)
def test_opening_a_store_without_its_driver_is_an_error(
    url: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    error = refusal(MissingDependency, SqlStore, url)
    assert module in error.message
    assert f"holdfast-state[{extra}]" in error.hint
