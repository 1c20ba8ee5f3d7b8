"""Migrations up and down, with data, on every database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from forks import forks
from servers import NUMBERS, Server

from holdfast import commands as c
from holdfast.commands import AddToLoad, Once, RequestId, ReserveObjects, ScopeEntries, StartLoad
from holdfast.errors import SchemaMismatch
from holdfast.model.alert import Channel
from holdfast.model.dag import AssetSpec, DagSpec, OnAssets
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.run import EmittedEvent, Ending, Outcome, Process, RunKind, RunState, TaskState
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.service import ServiceKind
from holdfast.model.value import as_reference
from holdfast.stores.sql import SqlStore, schema
from holdfast.stores.sql.purge_triggers import create_triggers, drop_triggers
from holdfast.stores.sql.tables import metadata
from holdfast.testing import Clock

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load", 3)
ORDERS = AssetScope(name="orders")
ORDERS_SPEC = AssetSpec("orders", "s3://lake/orders")
PROCESS = Process("here", 1, "t0")
MINUTE = timedelta(minutes=1)
STORED = "Ünïcödé 🚀"


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    server: Server = request.getfixturevalue(request.param)
    return server.new_database()


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(url)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    return ScriptDirectory.from_config(config)


def tables(engine: sa.Engine) -> set[str]:
    return set(sa.inspect(engine).get_table_names())


def fill(url: str) -> None:
    """Write at least one row to every table."""
    with SqlStore(url) as store:
        fill_entries(store)
        fill_runs(store)


def fill_entries(store: SqlStore) -> None:
    store.execute(c.RegisterTask(TASK))
    store.execute(c.DeclareDagAssets("sales", (("orders", "s3://lake/orders"),)))
    me = TaskWriter(TASK, store.execute(c.StartAttempt(TASK)))
    store.execute(c.Set(TASK, STORED, f'"{STORED}"', me, datetime(2999, 1, 1, tzinfo=UTC)))
    store.execute(c.Set(ORDERS, STORED, f'"{STORED}"', me))
    store.execute(c.Set(ORDERS, STORED, f'"{STORED}"', me, on_success=True))


def fill_runs(store: SqlStore) -> None:
    spec = DagSpec(dag_id="totals", file="totals.py", tasks=(), schedule=OnAssets(ORDERS_SPEC))
    store.execute(c.SaveFile("totals.py", (spec,)))
    scope = TaskScope("sales", "tuesday", "load")
    store.execute(c.RegisterTask(scope))
    me = TaskWriter(
        scope, store.execute(c.StartAttempt(scope, PROCESS, MINUTE, pool="default_pool"))
    )
    store.execute(c.TakeItem(me, "0" * 64))
    event = EmittedEvent("orders", "s3://lake/orders", aliases=("daily",))
    ending = Ending(
        outcome=Outcome.SUCCESS, state=TaskState.SUCCESS, result='"done"', events=(event,)
    )
    store.execute(c.FinishAttempt(me, True, ending=ending))
    store.execute(c.CreateAssetRun("totals", f"run {uuid4()}"))
    watch = c.StartWatch(asset=ORDERS, watcher="files", process=PROCESS, lease=timedelta(1))
    store.execute(watch)
    sign = c.ReportService(
        process=PROCESS, kind=ServiceKind.SCHEDULER, lease=timedelta(1), first=True
    )
    store.execute(sign)
    alerting = c.CheckConditions(
        channel=Channel.WEBHOOK, late_after={"orders": MINUTE}, interval=timedelta(0)
    )
    store.execute(alerting)
    load = f"load {next(NUMBERS)}"
    store.execute(StartLoad(load, ANN))
    store.execute(
        AddToLoad(load, 0, 0, (ScopeEntries(TASK, ((STORED, f'"{STORED}"', None),)),), ANN)
    )
    reserved = (STORED, as_reference(f"s3://lake/{next(NUMBERS)}"), "load")
    for owner in (TASK, ORDERS):
        store.execute(ReserveObjects(owner, (reserved,), ANN))
    former = TaskScope("sales", "sunday", "load")
    store.execute(c.RegisterTask(former))
    store.execute(c.DeleteRun(former.dag_id, former.run_id))
    store.execute(c.DeclareAsset("former"))
    store.execute(c.DeleteAsset(AssetScope(name="former")))
    marked = {"dag_id": "sales", "run_id": f"run {uuid4()}"}
    store.execute(c.CreateRun(**marked))
    store.execute(c.MarkRun(**marked, state=RunState.FAILED, writer=ANN))
    for key in (None, None, f"key {uuid4()}"):
        store.execute(c.EmitAssetEvent(scope=ORDERS, writer=ANN, key=key))
    request = RequestId("client", next(NUMBERS))
    store.execute(Once(request, c.RegisterTask(scope)))


def assert_works(url: str) -> None:
    fill(url)
    with SqlStore(url) as store:
        for scope in (TASK, ORDERS):
            entry = store.execute(c.GetEntry(scope, STORED))
            assert entry is not None
            assert entry.value == f'"{STORED}"'


def test_head_is_the_newest_migration(scripts: ScriptDirectory) -> None:
    assert scripts.get_heads() == [schema.HEAD]


def test_a_migrations_file_starts_with_its_revision(scripts: ScriptDirectory) -> None:
    for script in scripts.walk_revisions():
        assert Path(script.path).name.startswith(f"{script.revision}_")


TRIGGERS = {
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": (
        "SELECT t.tgname, pg_get_triggerdef(t.oid), p.prosrc FROM pg_trigger t "
        "JOIN pg_proc p ON p.oid = t.tgfoid WHERE NOT t.tgisinternal"
    ),
    "mysql": (
        "SELECT trigger_name, event_manipulation, event_object_table, action_statement "
        "FROM information_schema.triggers WHERE trigger_schema = database()"
    ),
}


def test_the_migrations_create_the_triggers(url: str, engine: sa.Engine) -> None:
    schema.migrate(url)
    with engine.begin() as connection:
        select = sa.text(TRIGGERS[engine.dialect.name.replace("mariadb", "mysql")])
        migrated = sorted(connection.execute(select).all())
        for drop in drop_triggers(engine.dialect):
            connection.exec_driver_sql(drop)
        assert not connection.execute(select).all()
        for create in create_triggers(engine.dialect):
            connection.exec_driver_sql(create)
        current = sorted(connection.execute(select).all())

    assert len(migrated) == 8
    assert current == migrated


def test_the_migrations_create_the_tables(url: str, engine: sa.Engine) -> None:
    schema.migrate(url)
    options = {
        "version_table": schema.VERSION_TABLE,
        "compare_type": True,
        "compare_server_default": True,
    }
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


UNKNOWN_TO_MYSQL = re.compile(r"INDEX IF |CREATE TRIGGER IF |COLUMN IF ", re.IGNORECASE)


def test_no_migration_uses_syntax_that_mysql_lacks(url: str) -> None:
    """MariaDB, on which the other tests run, has the syntax."""
    statements: list[str] = []

    def record(*event: Any) -> None:
        statements.append(event[2])

    sa.event.listen(sa.Engine, "before_cursor_execute", record)
    try:
        schema.migrate(url)
        schema.downgrade(url, "base")
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", record)

    assert len(statements) > 50
    assert [one for one in statements if UNKNOWN_TO_MYSQL.search(one)] == []


def structure(engine: sa.Engine) -> dict[str, Any]:
    """Return the database's description of its tables, without the order of columns."""
    inspector = sa.inspect(engine)

    def by_name(things: list[Any]) -> list[str]:
        return sorted(repr(sorted(thing.items(), key=str)) for thing in things)

    return {
        table: (
            by_name(inspector.get_columns(table)),
            inspector.get_pk_constraint(table),
            by_name(inspector.get_foreign_keys(table)),
            by_name(inspector.get_unique_constraints(table)),
            by_name(inspector.get_indexes(table)),
        )
        for table in inspector.get_table_names()
        if table != schema.VERSION_TABLE
    }


def test_the_migrated_schema_equals_the_created_one(url: str, engine: sa.Engine) -> None:
    metadata.create_all(engine)
    expected = structure(engine)
    metadata.drop_all(engine)
    schema.migrate(url)
    assert structure(engine) == expected


@pytest.mark.full
def test_each_migration_goes_down_and_up_with_data_in_it(
    url: str, engine: sa.Engine, scripts: ScriptDirectory
) -> None:
    assert schema.migrate(url) == (None, schema.HEAD)
    for script in scripts.walk_revisions():
        fill(url)
        with engine.connect() as connection:
            for table in metadata.sorted_tables:
                assert connection.execute(sa.select(table)).first(), f"{table} is empty"
        target = script.down_revision or "base"
        assert isinstance(target, str)
        assert schema.downgrade(url, target) == (schema.HEAD, script.down_revision)
        assert schema.check(url) == (script.down_revision, schema.HEAD)
        assert schema.migrate(url) == (script.down_revision, schema.HEAD)
        assert_works(url)


def test_upgrades_keep_runs_and_attempts(url: str, engine: sa.Engine) -> None:
    schema.migrate(url)
    with SqlStore(url, clock=Clock()) as store:
        scopes = [TaskScope("sales", "monday", name) for name in ("lost", "never", "no", "yes")]
        for scope in scopes:
            store.execute(c.RegisterTask(scope))
        lost, _, no, yes = scopes
        for scope in (lost, no, yes):
            store.execute(c.StartAttempt(scope))
        for scope in (no, yes):
            store.execute(c.FinishAttempt(TaskWriter(scope, 1), scope is yes))
        store.execute(c.CreateRun(dag_id="sales", run_id="tuesday"))
        tasks = store.execute(c.ListTaskInstances())
        attempts = [store.execute(c.ListAttempts(scope)) for scope in scopes]

    schema.downgrade(url, "0001")
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT external FROM hf_run ORDER BY run_id"))
        assert [bool(external) for (external,) in rows] == [True, False]
    schema.migrate(url)

    with SqlStore(url) as store:
        # The older schema could not store the number of failures since it was cleared.
        counted = [msgspec.structs.replace(task, failures=0) for task in tasks]
        assert store.execute(c.ListTaskInstances()) == tuple(counted)
        assert [store.execute(c.ListAttempts(scope)) for scope in scopes] == attempts
        kinds = [run.kind for run in store.execute(c.ListRuns())]
        assert kinds == [RunKind.MANUAL, RunKind.EXTERNAL]


def test_an_upgrade_ends_external_runs(url: str) -> None:
    schema.migrate(url)
    with SqlStore(url, clock=Clock()) as store:
        scopes = {name: TaskScope("sales", name, "load") for name in ("at", "no", "set", "yes")}
        for scope in scopes.values():
            store.execute(c.RegisterTask(scope))
        for name in ("at", "no", "yes"):
            store.execute(c.StartAttempt(scopes[name]))
        for name in ("no", "yes"):
            store.execute(c.FinishAttempt(TaskWriter(scopes[name], 1), name == "yes"))
        runs = store.execute(c.ListRuns())

    schema.downgrade(url, "0009")
    schema.migrate(url)

    with SqlStore(url) as store:
        assert store.execute(c.ListRuns()) == runs
    states = {run.run_id: run.state.value for run in runs}
    assert states == {"at": "running", "no": "failed", "set": "idle", "yes": "success"}


def test_base_has_no_tables(url: str, engine: sa.Engine) -> None:
    schema.migrate(url)
    fill(url)
    assert schema.downgrade(url, "base") == (schema.HEAD, None)
    assert tables(engine) == set()
    assert schema.downgrade(url, "base") == (None, None)


def test_a_second_migration_changes_nothing(url: str, engine: sa.Engine) -> None:
    schema.migrate(url)
    fill(url)
    before = structure(engine)
    assert schema.migrate(url) == (schema.HEAD, schema.HEAD)
    assert structure(engine) == before
    with SqlStore(url) as store:
        assert store.execute(c.Get(TASK, STORED)) == f'"{STORED}"'


def test_other_tables_are_left_alone(url: str, engine: sa.Engine) -> None:
    """Migrate a database that is shared with an application's own tables."""
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE invoice (id INTEGER PRIMARY KEY)"))
        connection.execute(sa.text("INSERT INTO invoice VALUES (1)"))
    schema.migrate(url)
    schema.downgrade(url, "base")
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT id FROM invoice")).scalar() == 1


def test_no_data_is_lost_with_the_revisions_row(url: str, engine: sa.Engine) -> None:
    """Migrate after a backup that was restored without the row."""
    schema.migrate(url)
    fill(url)
    with engine.begin() as connection:
        connection.execute(sa.text(f"DELETE FROM {schema.VERSION_TABLE}"))
    with pytest.raises(SchemaMismatch):
        schema.migrate(url)
    with engine.connect() as connection:
        for table in metadata.sorted_tables:
            assert connection.execute(sa.select(table)).first(), f"{table} is empty"


def test_concurrent_migrations_all_succeed(url: str) -> None:
    with ProcessPoolExecutor(4, mp_context=forks()) as pool:
        outcomes = list(pool.map(schema.migrate, [url] * 4))
    assert [after for _, after in outcomes] == [schema.HEAD] * 4
    assert sorted(before or "" for before, _ in outcomes) == ["", *[schema.HEAD] * 3]
    assert_works(url)


@pytest.mark.full
def test_a_killed_migration_can_be_run_again(url: str, engine: sa.Engine) -> None:
    for enough in (1, 8, 12, 16, 19):
        process = forks().Process(target=schema.migrate, args=(url,))
        process.start()
        while process.is_alive() and len(tables(engine)) < enough:
            pass
        process.kill()
        process.join()
        schema.migrate(url)
        assert_works(url)
        schema.downgrade(url, "base")
