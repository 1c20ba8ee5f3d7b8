"""Upgrade with a migration on PostgreSQL, while the old version runs, as the production guide says.

The new version is a copy of this one with one more migration, which adds a column, an index and a
table, as migrations usually do.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from artefacts import ROOT
from project import Project, new_project, wait_until
from servers import Server

from holdfast.stores.sql.schema import HEAD

pytestmark = pytest.mark.full

NEXT = f"{int(HEAD) + 1:04}"
MIGRATION = f'''"""What a later version adds."""

import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{HEAD}"


def upgrade():
    op.add_column("hf_run", sa.Column("note", sa.Text))
    op.create_index("ix_hf_run_later", "hf_run", ["dag_id", "state"])
    op.create_table("hf_later", sa.Column("id", sa.Integer, primary_key=True))


def downgrade():
    op.drop_table("hf_later")
    op.drop_index("ix_hf_run_later", "hf_run")
    op.drop_column("hf_run", "note")
'''
DAGS = """
    import os, time
    from holdfast.sdk import DAG, task

    with DAG("long"):

        @task
        def work(task_store=None):
            task_store.set("tries", task_store.get("tries", 0) + 1)
            while not os.path.exists("go"):
                task_store.set("ticks", task_store.get("ticks", 0) + 1)
                time.sleep(0.1)
            return task_store.get("tries")

        work()

    with DAG("quick"):

        @task
        def work(task_store=None):
            task_store.set("done", True)

        work()
    """


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment in which commands are those of the new version."""
    directory = tmp_path_factory.mktemp("new")
    for package in ("holdfast", "pyspark_holdfast"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src" / package, directory / package, ignore=ignored)
    sql = directory / "holdfast" / "stores" / "sql"
    (sql / "migrations" / "versions" / f"{NEXT}_later.py").write_text(MIGRATION)
    schema = sql / "schema.py"
    schema.write_text(schema.read_text().replace(f'HEAD = "{HEAD}"', f'HEAD = "{NEXT}"'))
    version = directory / "holdfast" / "version.py"
    version.write_text('__version__ = "99.0.0"\n')
    return {"PYTHONPATH": str(directory)}


@pytest.fixture
def project(postgres: Server, tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path, HOLDFAST__DATABASE__URL=postgres.new_database()) as project:
        project.write("dags/dags.py", DAGS)
        assert project.holdfast("db", "migrate").status == 0
        yield project


def revision(project: Project) -> str:
    engine = sa.create_engine(project.url)
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT version_num FROM hf_schema_version").scalar()
    engine.dispose()
    return str(found)


def ticks(project: Project) -> int:
    return int(project.task_store("work", "long").get("ticks", 0))


def start_long(project: Project) -> None:
    """Have the scheduler run a task that works until there is a file `go`."""
    wait_until(lambda: project.holdfast("runs", "trigger", "long", "--run-id", "r").status == 0)
    wait_until(lambda: ticks(project) > 2)


def test_services_of_both_versions_run_side_by_side_over_a_migration(
    project: Project, new: dict[str, str]
) -> None:
    assert project.holdfast("--version", **new).out == "holdfast 99.0.0\n"
    with project.service("scheduler", "dags") as old, project.service("server") as old_server:
        start_long(project)

        # Before the migration, the new version refuses.
        early = project.holdfast("scheduler", "dags", **new)
        assert early.status == 1
        assert f"the database has schema {HEAD}, not {NEXT}" in early.err
        migrated = project.holdfast("db", "migrate", **new)
        assert migrated.status == 0, migrated.err
        assert revision(project) == NEXT

        # The processes of the old version that run go on: the task, new runs, the server.
        before = ticks(project)
        project.holdfast("runs", "trigger", "quick", "--run-id", "old", **new)
        wait_until(lambda: project.run_of("quick", "old").state == "success")
        wait_until(lambda: ticks(project) > before + 5)
        assert old.poll() is None and old_server.poll() is None

        # What starts anew from the old version is refused.
        refused = project.holdfast("runs", "list")
        assert refused.status == 1
        assert f"the database has schema {NEXT}, which this version" in refused.err
        assert "upgrade Holdfast" in refused.err

        # The new services start beside the old ones, which are then stopped, one by one.
        with project.service("scheduler", "dags", **new), project.service("server", **new):
            check = ("scheduler", "check", "--json")
            alive = '"alive":true'
            wait_until(
                lambda: project.holdfast(*check, **new).out.replace(" ", "").count(alive) == 2
            )
            old_server.send_signal(signal.SIGTERM)
            old.send_signal(signal.SIGTERM)
            assert (old.wait(timeout=60), old_server.wait(timeout=60)) == (0, 0)
            wait_until(lambda: project.task_store("work", "long")["tries"] == 2)
            project.path("go").touch()
            wait_until(lambda: project.run_of("long").state == "success")

    assert [one.outcome for one in project.attempts("work", "long")] == ["interrupted", "success"]
    assert "Traceback" not in project.read("scheduler.err") + project.read("server.err")


def test_an_old_scheduler_whose_supervisor_dies_after_the_migration_ends(
    project: Project, new: dict[str, str]
) -> None:
    with project.service("scheduler", "dags") as old:
        start_long(project)
        assert project.holdfast("db", "migrate", **new).status == 0
        [supervisor] = project.processes("-m holdfast.runner.supervisor")
        os.kill(supervisor, signal.SIGKILL)

        assert old.wait(timeout=60) == 1
    assert f"the database has schema {NEXT}, which this version" in project.read("scheduler.err")
    with project.service("scheduler", "dags", **new):
        wait_until(lambda: project.task_store("work", "long")["tries"] == 2)
        project.path("go").touch()
        wait_until(lambda: project.run_of("long").state == "success")


def test_a_downgrade_by_the_new_version_lets_the_old_one_start_again(
    project: Project, new: dict[str, str]
) -> None:
    assert project.holdfast("db", "migrate", **new).status == 0
    by_old = project.holdfast("db", "downgrade", HEAD, "--yes")
    by_new = project.holdfast("db", "downgrade", HEAD, "--yes", **new)

    assert by_old.status == 1
    assert by_new.status == 0, by_new.err
    assert project.holdfast("db", "check").status == 0
