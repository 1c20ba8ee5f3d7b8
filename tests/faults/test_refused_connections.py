"""PostgreSQL that has no connection to give for some time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from threading import Timer

import psycopg
import pytest
import sqlalchemy as sa
from servers import Server

from holdfast import commands as c
from holdfast.errors import StoreUnavailable
from holdfast.stores.sql import SqlStore, failures, schema

ROLE = "one_connection"


@pytest.fixture
def url(postgres: Server) -> Iterator[sa.URL]:
    """Yield the URL of a database whose role may have one connection."""
    url = sa.make_url(postgres.new_database())
    with _connect(url) as admin:
        admin.execute(f"DROP ROLE IF EXISTS {ROLE}")
        admin.execute(f"CREATE ROLE {ROLE} LOGIN CONNECTION LIMIT 1")
        admin.execute(f'ALTER DATABASE "{url.database}" OWNER TO {ROLE}')
    limited = url.set(username=ROLE)
    schema.migrate(limited.render_as_string(hide_password=False))
    yield limited
    with _connect(url) as admin:
        admin.execute(f"DROP OWNED BY {ROLE} CASCADE")
        admin.execute(f'ALTER DATABASE "{url.database}" OWNER TO CURRENT_USER')
        admin.execute(f"DROP ROLE {ROLE}")


def _connect(url: sa.URL) -> psycopg.Connection:
    text = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(text, autocommit=True)


def test_a_store_waits_until_the_database_has_a_connection_for_it(
    url: sa.URL, postgres: Server
) -> None:
    text = url.render_as_string(hide_password=False)
    with SqlStore(text, retry_window=timedelta(seconds=20)) as store:
        store.execute(c.Now())
        with _connect(sa.make_url(postgres.new_database())) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = %s",
                [ROLE],
            )
        holder = _connect(url)
        Timer(1.0, holder.close).start()

        assert store.execute(c.ListRuns()) == ()


def test_a_store_without_time_to_wait_is_unavailable(url: sa.URL) -> None:
    text = url.render_as_string(hide_password=False)
    with (
        _connect(url),
        pytest.raises(StoreUnavailable),
        SqlStore(text, retry_window=timedelta(0)) as store,
    ):
        store.execute(c.ListRuns())


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("FATAL:  sorry, too many clients already", True),
        ("FATAL:  remaining connection slots are reserved for roles with SUPERUSER", True),
        ('FATAL:  too many connections for database "state"', True),
        ('FATAL:  password authentication failed for user "ann"', False),
        ('FATAL:  database "state" does not exist', False),
    ],
)
def test_a_refusal_that_passes_is_told_from_one_that_lasts(text: str, passes: bool) -> None:
    assert failures.is_lost(psycopg.OperationalError(f"connection failed: {text}")) == passes
