"""PostgreSQL that refuses writes for some time, as a standby does until it is promoted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Timer

import psycopg
import pymysql
import pytest
import sqlalchemy as sa
from servers import Server

from holdfast import Connection
from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import StoreUnavailable
from holdfast.stores.sql import SqlStore, failures, schema

WRITES: list[Callable[[AssetStore], object]] = [
    lambda store: store.set("watermark", 2),
    lambda store: store.set("watermark", 2, if_version=1),
]


@pytest.fixture
def url(postgres: Server) -> str:
    url = postgres.new_database()
    schema.migrate(url)
    return url


@contextmanager
def read_only(url: str) -> Iterator[Callable[[], None]]:
    """Let the database refuse writes until the block ends, or the function is called."""
    parsed = sa.make_url(url)

    def admit() -> None:
        admin.execute(f'ALTER DATABASE "{parsed.database}" RESET default_transaction_read_only')

    text = parsed.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(text, autocommit=True) as admin:
        admin.execute(f'ALTER DATABASE "{parsed.database}" SET default_transaction_read_only = on')
        admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        yield admit
        admit()


@pytest.mark.parametrize("write", WRITES, ids=["set", "if_version"])
def test_a_write_waits_until_the_database_takes_writes(
    url: str, write: Callable[[AssetStore], object]
) -> None:
    with SqlStore(url, retry_window=timedelta(seconds=20)) as store:
        orders = Connection(store).asset_store(name="orders", declare=True)
        orders.set("watermark", 1)
        with read_only(url) as admit:
            Timer(1.0, admit).start()
            write(orders)

        assert orders.get("watermark") == 2
        entry = orders.entry("watermark")
        assert entry is not None
        assert entry.version == 2


async def test_an_async_write_waits_too(url: str) -> None:
    with SqlStore(url, retry_window=timedelta(seconds=20)) as store:
        orders = Connection(store).asset_store(name="orders", declare=True)
        await orders.aset("watermark", 1)
        with read_only(url) as admit:
            Timer(1.0, admit).start()
            await orders.aset("watermark", 2)

        assert await orders.aget("watermark") == 2
        await store.aclose()


def test_a_store_without_time_to_wait_says_that_the_database_is_read_only(url: str) -> None:
    with SqlStore(url, retry_window=timedelta(0)) as store:
        orders = Connection(store).asset_store(name="orders", declare=True)
        with read_only(url):
            # The first call finds that its session was ended.
            for _ in range(2):
                with pytest.raises(StoreUnavailable) as caught:
                    orders.set("watermark", 2)

    assert "is read-only: cannot execute" in caught.value.message


@pytest.mark.parametrize(
    ("code", "text", "passes"),
    [
        (1290, "The MySQL server is running with the --read-only option", True),
        (1290, "The MariaDB server is running with the --skip-grant-tables option", False),
        (1792, "Cannot execute statement in a READ ONLY transaction", True),
        (1836, "Running in read-only mode", True),
        (1064, "You have an error in your SQL syntax near 'read-only'", False),
    ],
)
def test_a_replica_of_mysql_is_told_from_other_refusals(code: int, text: str, passes: bool) -> None:
    assert failures.is_lost(pymysql.OperationalError(code, text)) == passes
