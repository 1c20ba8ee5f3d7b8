"""Data source on each kind of database, and its options. The kind of Spark does not matter here."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from remembered import remember
from servers import ServerDatabase

from holdfast import Connection
from holdfast import commands as c
from holdfast.access.identity import TaskIdentity
from holdfast.errors import Forbidden, InvalidInput, NoToken, StaleAttempt
from holdfast.model.entry import TaskWriter
from holdfast.model.scope import TaskScope
from holdfast.portable.source.location import Location, locate
from holdfast.portable.source.predicate import parse_where
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import load
from holdfast.spark.source.registration import register
from holdfast.spark.source.snapshot import Snapshot
from holdfast.stores.http import HttpStore
from holdfast.stores.sql import SqlStore
from holdfast.stores.sql.dialects import make_engine, parse_url
from holdfast.stores.sql.tables import task_entry

SCOPE = TaskScope("etl", "monday", "load")
MANY = 40_001
PAUSE = 0.05


def fill(url: str, entries: int) -> None:
    """Write all rows at once, because only reading is tested."""
    with SqlStore(url) as store:
        store.execute(c.RegisterTask(SCOPE))
    same = {"ti_id": SCOPE.ti_text, "version": 1, "updated_at": 0}
    rows = [same | {"key": f"key {n:05}", "value": str(n)} for n in range(entries)]
    engine = sa.create_engine(parse_url(url)[0])
    with engine.begin() as connection:
        connection.execute(sa.insert(task_entry), rows)
    engine.dispose()


@pytest.mark.full
def test_every_row_of_a_large_table_is_read_once(
    local_spark: SparkSession, database_url: str
) -> None:
    fill(database_url, MANY)
    register(local_spark, database_url)

    entries = local_spark.read.format("holdfast").option("table", "task_store").load()
    placed = entries.withColumn("partition", F.spark_partition_id())
    [read] = placed.agg(
        F.count("*").alias("rows"),
        F.sum(F.col("value").cast("int")).alias("sum"),
        F.count_distinct("key").alias("keys"),
        F.count_distinct("partition").alias("partitions"),
    ).collect()

    assert (read.rows, read.keys, read.partitions) == (MANY, MANY, 3)
    assert read.sum == MANY * (MANY - 1) // 2


@pytest.mark.full
def test_the_store_finds_rows_and_keeps_null_from_empty(
    local_spark: SparkSession, database_url: str
) -> None:
    with SqlStore(database_url) as store:
        connection = Connection(store)
        connection.task_store("etl", "monday", "load").set("empty", "")
        connection.task_store("etl", "monday", "load").set("lines", {"a": '1\n2,"3"\t\\ä\u2028'})
        connection.task_store("etl", "monday", "load").set("ref", {"__holdfast_ref__": "x"})
        orders = connection.asset_store(name="orders", declare=True)
        orders.set("until", 1)
        orders.delete("until")
    register(local_spark, database_url)
    reader = local_spark.read.format("holdfast").option("where", "key IN ('empty', 'ref', 'lines')")

    entries = reader.option("table", "task_store").load().orderBy("key").collect()
    history = local_spark.read.format("holdfast").option("table", "asset_history").load()

    assert [row.value for row in entries] == [
        '""',
        '{"a":"1\\n2,\\"3\\"\\t\\\\ä\u2028"}',
        '{"__holdfast_ref__":"x"}',
    ]
    assert [row.value for row in history.orderBy("version").collect()] == ["1", None]


@pytest.mark.full
def test_loads_are_rows_with_typed_columns(local_spark: SparkSession, database_url: str) -> None:
    with SqlStore(database_url) as store:
        orders = Connection(store).asset_store(name="orders", declare=True)
        orders.set("note/load", "the user's own")
        remember(orders, 20)
        remember(orders, 30, rows=5, checks={"unique id": 0}, directories=["/lake/load=1"])
        orders.delete("watermark/load")
    register(local_spark, database_url)
    reader = local_spark.read.format("holdfast").option("table", "loads")

    loads = reader.load()
    [total] = loads.agg(F.sum("rows").alias("rows"), F.max("to").alias("to")).collect()
    late = loads.filter(F.col("started_at") > F.lit("2026-01-31 04:59:59Z").cast("timestamp"))
    by_store = reader.option("where", "asset = 'orders' AND key = 'watermark'")
    chosen = by_store.option("columns", "seconds, name, asset, checks").load().collect()
    numbers = reader.option("columns", "number").load().collect()

    assert dict(loads.dtypes) == {
        **dict.fromkeys(("asset", "uri", "key", "name", "kind", "cursor", "type"), "string"),
        **dict.fromkeys(("from", "to", "checks", "quarantine", "directories"), "string"),
        **dict.fromkeys(("asset_id", "version", "number", "rows", "beyond"), "bigint"),
        **dict.fromkeys(("started_at", "updated_at"), "timestamp"),
        "quarantined": "bigint",
        "seconds": "double",
        "writer": "string",
    }
    assert (total.rows, total.to, late.count()) == (15, "30", 2)
    assert sorted(map(tuple, chosen)) == [
        (1.5, "load=orders.watermark.000000000000", "orders", "{}"),
        (1.5, "load=orders.watermark.000000000001", "orders", '{"unique id":0}'),
    ]
    assert sorted(row.number for row in numbers) == [0, 1]
    with pytest.raises(PySparkException, match="use df.filter"):
        reader.option("where", "rows > 1").load().collect()


@pytest.mark.full
def test_each_row_has_the_names_of_its_scope(local_spark: SparkSession, database_url: str) -> None:
    with SqlStore(database_url) as store:
        connection = Connection(store)
        for run, index in (("monday", 0), ("monday", 1), ("tuesday", 0)):
            for key in ("a", "b"):
                connection.task_store("etl", run, "load", index).set(key, f"{run} {index}")
        connection.task_store("other", "monday", "load").set("a", 1)
        for name in ("orders", "customers"):
            connection.asset_store(name=name, declare=True).set("name", name)
    register(local_spark, database_url)
    reader = local_spark.read.format("holdfast").option("table", "task_store")
    reader = reader.option("where", "dag_id = 'etl' AND key = 'b'")

    entries = reader.option("columns", "map_index, value, run_id").load().collect()
    names = reader.option("columns", "run_id").load().collect()
    keys = reader.option("columns", "key").load().collect()
    assets = local_spark.read.format("holdfast").option("table", "asset_history").load().collect()
    instances = local_spark.read.format("holdfast").option("table", "task_instances").load()

    assert sorted(map(tuple, entries)) == [
        *((0, '"monday 0"', "monday"), (0, '"tuesday 0"', "tuesday"), (1, '"monday 1"', "monday"))
    ]
    assert sorted(row.run_id for row in names) == ["monday", "monday", "tuesday"]
    assert [row.key for row in keys] == ["b", "b", "b"]
    assert {(row.asset, row.uri): row.value for row in assets} == {
        ("orders", "orders"): '"orders"',
        ("customers", "customers"): '"customers"',
    }
    assert sorted((row.dag_id, row.run_id, row.map_index) for row in instances.collect()) == [
        *(("etl", "monday", 0), ("etl", "monday", 1), ("etl", "tuesday", 0)),
        ("other", "monday", -1),
    ]


def test_all_partitions_are_read_in_one_snapshot(
    local_spark: SparkSession, postgres_database: ServerDatabase, tmp_path: Path
) -> None:
    url = postgres_database.empty()
    fill(url, MANY)
    register(local_spark, url)
    begun, gone = tmp_path / "begun", tmp_path / "gone"

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            begun.touch()
            while not gone.exists():
                time.sleep(PAUSE)
            yield batch

    def delete() -> None:
        while not begun.exists():
            time.sleep(PAUSE)
        with SqlStore(url) as store:
            store.execute(c.DeleteRun("etl", "monday"))
        gone.touch()

    entries = local_spark.read.format("holdfast").option("table", "task_store").load()
    deleting = Thread(target=delete)
    deleting.start()
    read = entries.mapInArrow(wait, entries.schema).count()
    deleting.join()

    assert read == MANY
    assert entries.count() == 0


@pytest.mark.full
def test_a_later_reader_joins_the_snapshot(postgres_database: ServerDatabase) -> None:
    url = postgres_database.empty()
    fill(url, 3)
    engine = make_engine(*parse_url(url))
    first = Snapshot(engine, "00000000000000aa")
    with SqlStore(url) as store:
        store.execute(c.DeleteRun("etl", "monday"))

    second = Snapshot(engine, "00000000000000aa")
    first.close()
    third = Snapshot(engine, "00000000000000aa")
    other = Snapshot(engine, "00000000000000bb")

    assert [entries_seen(url, one) for one in (second, third, other)] == [3, 3, 0]
    for one in (second, third, other):
        one.close()


def test_a_snapshot_that_cannot_be_joined_leaves_no_connection(
    postgres_database: ServerDatabase,
) -> None:
    engine = make_engine(*parse_url(postgres_database.empty()))
    opened: list[psycopg.Connection] = []
    sa.event.listen(engine, "connect", lambda connection, _: opened.append(connection))

    with pytest.raises(psycopg.Error):
        Snapshot(engine, "f" * 17)  # more than the key of a lock

    assert [connection.closed for connection in opened] == [True]


def entries_seen(url: str, snapshot: Snapshot) -> int:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot.id}'")
        [count] = connection.execute("SELECT count(*) FROM hf_task_entry").fetchone() or ()
    return int(count)


@pytest.mark.parametrize("reports", [False, True])
def test_a_task_reads_tables_if_its_token_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reports: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load()
    inside = SqlStore(settings.database_url)
    inside.execute(c.RegisterTask(SCOPE))
    attempt = inside.execute(c.StartAttempt(SCOPE))
    server = EmbeddedServer(inside, settings)
    token = server.tokens.issue(TaskIdentity(SCOPE, attempt, reports=reports))
    outside = HttpStore(server.url, token)
    plan, scan = c.PlanScan("runs", 8, 10), c.Scan(table="runs", columns=("run_id",), limit=10)

    allowed = [is_allowed(outside, command) for command in (plan, scan)]
    inside.execute(c.FinishAttempt(TaskWriter(SCOPE, attempt), True))
    afterwards = is_allowed(outside, scan)

    assert allowed == [reports, reports]
    assert not afterwards
    outside.close()
    server.close()
    inside.close()


def is_allowed(store: HttpStore, command: c.Command[Any]) -> bool:
    try:
        store.execute(command)
    except (Forbidden, StaleAttempt):
        return False
    return True


def test_a_missing_file_is_not_created(local_spark: SparkSession, tmp_path: Path) -> None:
    register(local_spark, f"sqlite:///{tmp_path}/nothing.db")

    with pytest.raises(PySparkException, match=r"the file .*nothing\.db does not exist"):
        local_spark.read.format("holdfast").option("table", "runs").load().count()

    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_spark_finds_the_source_by_itself(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import holdfast\n"
        "from pyspark.sql import SparkSession\n"
        "from holdfast.spark.source.registration import register\n"
        "with holdfast.connect() as connection:\n"
        "    connection.task_store('etl', 'monday', 'load').set('rows', 12)\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', False)"
        ".getOrCreate()\n"
        "reader = spark.read.format('holdfast').option('table', 'task_store')\n"
        "print('found', reader.load().first().value)\n"
        "register(spark)\n"
        "print('registered', reader.load().first().value)\n"
    )

    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)

    assert done.stdout.splitlines() == ["found 12", "registered 12"], done.stderr[-2000:]


def test_where_is_a_list_of_conditions() -> None:
    tests = parse_where(
        "task_store",
        "dag_id = 'it''s' and map_index in (-1, 2) AND expires_at IS NOT NULL "
        "AND startswith(key, 'a_') AND updated_at >= '1970-01-02'",
    )

    assert [(test["column"], test["operator"], test["values"]) for test in tests] == [
        ("dag_id", "=", ["it's"]),
        ("map_index", "in", [-1, 2]),
        ("expires_at", "not null", []),
        ("key", "starts", ["a_"]),
        ("updated_at", ">=", [86_400_000_000]),
    ]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("", "where cannot be parsed at its end"),
        ("key = 'a' OR key = 'b'", "where cannot be parsed at OR"),
        ("key LIKE 'a%'", "where cannot be parsed at LIKE"),
        ("key = 'a", "where cannot be parsed at '"),
        ("colour = 'red'", "the table `task_store` has no column `colour`"),
        ("value = '1'", "the store cannot find rows of `task_store` by value"),
        ("map_index = 'one'", "the store cannot find rows of `task_store` by map_index"),
        ("updated_at > 'yesterday'", "which is not a time"),
    ],
)
def test_an_invalid_where_is_refused(where: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_where("task_store", where)


def test_options_override_the_registered_ones() -> None:
    registered = Location("http://a:1", "secret")

    assert locate({}, registered) == registered
    assert locate({"url": "http://a:1/"}, registered).token == "secret"
    assert locate({"url": "sqlite:///b.db"}, registered) == Location("sqlite:///b.db")
    with pytest.raises(NoToken):
        locate({"url": "http://b:1"}, registered)
    with pytest.raises(InvalidInput, match="with the URL of a database"):
        locate({"url": "sqlite:///b.db", "token": "x"}, None)
