"""Loads from a PostgreSQL table that a second process inserts into, updates and deletes from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from forks import forks
from live_loads import LOADS
from relay import relay
from servers import Server

JAR = Path("/usr/share/java/postgresql.jar")
TABLES = """
    CREATE TABLE orders (id bigint PRIMARY KEY, n int, at timestamptz);
    CREATE INDEX ON orders (at);
    CREATE TABLE versions (id bigint, n int, at timestamptz);
    CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN INSERT INTO versions VALUES (NEW.id, NEW.n, NEW.at); RETURN NEW; END$$;
    CREATE TRIGGER remember BEFORE INSERT OR UPDATE ON orders
    FOR EACH ROW EXECUTE FUNCTION remember();
"""


def change(url: str, stop: str, seed: int) -> None:
    """Change the table until stopped, some transactions slower than others."""
    random, number = Random(seed), seed * 1_000_000
    with psycopg.connect(url) as connection:
        while not os.path.exists(stop):
            number += 1
            some = seed * 1_000_000 + random.randint(1, number % 1_000_000)
            with connection.transaction():
                connection.execute(
                    "INSERT INTO orders VALUES (%s, 0, clock_timestamp())", (number,)
                )
                connection.execute(
                    "UPDATE orders SET n = n + 1, at = clock_timestamp() WHERE id = %s", (some,)
                )
                if random.random() < 0.2:
                    connection.execute("DELETE FROM orders WHERE id = %s", (some,))
                time.sleep(random.choice((0, 0.01, 0.3)))


def micros(url: str, table: str) -> list[tuple[int, int, int]]:
    with psycopg.connect(url) as connection:
        query = f"SELECT id, n, (extract(epoch FROM at) * 1000000)::bigint FROM {table}"
        return [(int(id_), int(n), int(at)) for id_, n, at in connection.execute(query)]  # type: ignore[arg-type]


@contextmanager
def reached(postgres: Server) -> Iterator[tuple[str, str]]:
    """Yield a new database, with its URL for psycopg and for JDBC."""
    if not JAR.exists():
        pytest.skip("PostgreSQL's JDBC driver is missing (Debian: libpostgresql-jdbc-java)")
    url = postgres.new_database().replace("+psycopg", "")
    with psycopg.connect(url) as connection:
        info = connection.info
        place, database = f"{info.host}/.s.PGSQL.{info.port}", info.dbname
    with relay(place) as port:
        yield url, f"jdbc:postgresql://127.0.0.1:{port}/{database}"


@pytest.mark.full
def test_no_row_is_lost_in_the_repeated_hour(postgres: Server, tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "zoned_loads.py"
    with reached(postgres) as (url, jdbc):
        done = subprocess.run(
            [sys.executable, script, jdbc, url, tmp_path],
            env={**os.environ, "TZ": "Europe/Berlin"},
            stdout=subprocess.PIPE,
            check=True,
        )

    assert [json.loads(line) for line in done.stdout.splitlines()] == [[1, 2], [3, 4, 5, 6], [7]]


@pytest.mark.full
def test_a_table_that_changes_during_its_loads_is_loaded_without_loss_or_duplicates(
    postgres: Server, tmp_path: Path
) -> None:
    loads: list[list[Any]] = []
    script = Path(__file__).parents[1] / "live_loads.py"
    with reached(postgres) as (url, jdbc):
        with psycopg.connect(url) as connection:
            connection.execute(TABLES)
        changers = [
            forks().Process(target=change, args=(url, str(tmp_path / "stop"), n)) for n in (1, 2)
        ]
        for changer in changers:
            changer.start()
        command = [sys.executable, script, jdbc, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                loads.append(json.loads(line))
                if len(loads) == LOADS:  # it asks the others to stop, and waits
                    for changer in changers:
                        changer.join()
                    (tmp_path / "stopped").touch()
    assert process.returncode == 0

    loaded = [tuple(row) for first, _ in loads for row in first]
    existed, now = set(micros(url, "versions")), set(micros(url, "orders"))
    assert len(loads) == LOADS + 1
    assert all(sorted(first) == sorted(second) for first, second in loads)
    assert len(loaded) == len(set(loaded)), "a version was loaded twice"
    assert set(loaded) <= existed, "a row was loaded that never was"
    assert now <= set(loaded), "a row was lost"
    assert len(now) > 20
