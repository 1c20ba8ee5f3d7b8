"""Data source on every kind of Spark, from a server and from each kind of database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.connect.readwriter import DataFrameReader, DataFrameWriter
from remembered import remember

from holdfast import Connection
from holdfast.access.identity import UserIdentity
from holdfast.model.role import Role
from holdfast.portable.source.location import Location
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import load
from holdfast.spark.source.registration import register, register_on_use
from holdfast.stores.sql import SqlStore

WRITTEN: list[tuple[str, Any]] = [
    ("rows", 12),
    ("file a", {"path": "s3://a", "rows": 5}),
    ("file b", [1, 2]),
]


def fill(store: SqlStore) -> None:
    connection = Connection(store)
    for key, value in WRITTEN:
        connection.task_store("etl", "monday", "load").set(key, value)
    connection.task_store("etl", "monday", "check", 3).set("rows", 7)
    connection.asset_store(name="orders", declare=True).set("until", "2026-01-31")
    remember(connection.asset_store(name="loaded", declare=True), 20)


def table(spark: SparkSession, name: str, **options: str) -> DataFrame:
    return spark.read.format("holdfast").options(table=name, **options).load()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    place = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        settings = load()
        with SqlStore(settings.database_url) as store:
            fill(store)
            server = EmbeddedServer(store, settings)
            yield server
            server.close()


@pytest.fixture(scope="module")
def at_server(spark: SparkSession, server: EmbeddedServer) -> SparkSession:
    token = server.tokens.issue(UserIdentity("anna", Role.VIEWER))
    register(spark, server.url, token=token)
    return spark


@pytest.mark.full
def test_a_server_has_all_tables(at_server: SparkSession) -> None:
    entries = table(at_server, "task_store").orderBy("task_id", "key").collect()
    assets = table(at_server, "asset_store", where="asset = 'orders'")
    assets = assets.select("asset", "uri", "key", "value").collect()
    history = table(at_server, "asset_history", where="asset = 'orders'")
    history = history.select("version", "previous", "value").collect()
    loads = table(at_server, "loads").select("asset", "key", "number", "to", "rows", "seconds")
    runs = table(at_server, "runs").select("dag_id", "run_id", "kind", "conf").collect()
    instances = table(at_server, "task_instances").select("task_id", "map_index").collect()

    assert [(row.task_id, row.map_index, row.key) for row in entries] == [
        *(("check", 3, "rows"), ("load", -1, "file a"), ("load", -1, "file b")),
        ("load", -1, "rows"),
    ]
    assert entries[1].value == '{"path":"s3://a","rows":5}'
    assert entries[0].expires_at > entries[0].updated_at
    assert assets == [Row(asset="orders", uri="orders", key="until", value='"2026-01-31"')]
    assert history == [Row(version=1, previous=0, value='"2026-01-31"')]
    assert list(map(tuple, loads.collect())) == [("loaded", "watermark", 0, "20", 10, 1.5)]
    assert runs == [Row(dag_id="etl", run_id="monday", kind="external", conf="{}")]
    assert sorted(map(tuple, instances)) == [("check", 3), ("load", -1)]


@pytest.mark.full
def test_one_dataframe_serves_many_queries(at_server: SparkSession) -> None:
    entries = table(at_server, "task_store")

    found = entries.filter("key = 'rows' AND map_index = 3").collect()
    sizes = entries.select(F.get_json_object("value", "$.rows").cast("int").alias("rows"))

    assert [row.value for row in found] == ["7"]
    assert sizes.agg(F.sum("rows")).first() == (5,)
    assert entries.filter("key = 'rows'").union(entries.filter("map_index = 3")).count() == 3
    assert entries.count() == 4


@pytest.mark.full
def test_columns_and_rows_are_chosen_by_the_store(at_server: SparkSession) -> None:
    options = {"columns": "key, value", "where": "task_id = 'load' AND startswith(key, 'file ')"}

    chosen = table(at_server, "task_store", **options)
    by_schema = at_server.read.format("holdfast").option("table", "task_store").schema("key string")

    assert sorted(map(tuple, chosen.collect())) == [
        ("file a", '{"path":"s3://a","rows":5}'),
        ("file b", "[1,2]"),
    ]
    assert by_schema.load().columns == ["key"]
    assert by_schema.load().distinct().count() == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "taskstore"}, "there is no table `taskstore`"),
        ({"table": "runs", "columns": "dag"}, "the table `runs` has no column `dag`"),
        ({"table": "runs", "where": "conf = 'x'"}, "cannot find rows of `runs` by conf = 'x'"),
        ({"table": "runs", "wher": "dag_id = 'x'"}, "there is no option `wher` for reading"),
        ({"table": "runs", "path": "x", "a": "1"}, "there is no option `a`, `path` for reading"),
        ({"table": "runs", "partitions": "many"}, "partitions is 'many'"),
        ({"table": "runs", "token": "x"}, "a token is given without the URL of a server"),
        ({"table": "runs", "url": "http://127.0.0.1:1", "token": ""}, "the server needs a token"),
    ],
)
def test_the_first_line_of_an_error_says_which_option_is_bad(
    at_server: SparkSession, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException) as raised:
        at_server.read.format("holdfast").options(**options).load().collect()

    assert message in str(raised.value).splitlines()[0]
    assert "Traceback" not in str(raised.value)


def test_the_hint_of_an_unknown_option_names_the_known_ones(at_server: SparkSession) -> None:
    by_schema = at_server.read.format("holdfast").schema("key string").option("tabel", "runs")

    with pytest.raises(PySparkException) as raised:
        by_schema.load().collect()

    parameters = raised.value.getMessageParameters()
    assert parameters is not None
    assert parameters["msg"].strip() == (
        "holdfast.errors.InvalidInput: there is no option `tabel` for reading\n"
        "hint: known options: table, url, token, where, columns, partitions"
    )


@pytest.mark.parametrize(
    ("options", "mode", "message"),
    [
        ({"table": "task_store", "where": "key = 'k'"}, "append", "no option `where` for writing"),
        ({"table": "task_store"}, "overwrite", 'mode("overwrite") would empty the store'),
    ],
)
def test_the_first_line_of_an_error_says_what_a_write_cannot_do(
    at_server: SparkSession, options: dict[str, str], mode: str, message: str
) -> None:
    rows = at_server.sql("SELECT 'd' dag_id, 'r' run_id, 't' task_id, 'k' key, '1' value")

    with pytest.raises(PySparkException) as raised:
        rows.write.format("holdfast").options(**options).mode(mode).save()

    assert message in str(raised.value).splitlines()[0]
    assert "Traceback" not in str(raised.value)


def test_a_view_has_its_options_and_a_catalog_table_is_refused(
    at_server: SparkSession,
) -> None:
    at_server.sql("CREATE TEMPORARY VIEW all_runs USING holdfast OPTIONS (table 'runs')")

    with pytest.raises(PySparkException, match="catalog cannot hold a Holdfast table"):
        at_server.sql("CREATE TABLE kept_runs USING holdfast OPTIONS (table 'runs')")

    assert at_server.sql("SELECT run_id FROM all_runs").collect() == [Row(run_id="monday")]


def test_an_invalid_token_is_an_error(at_server: SparkSession, server: EmbeddedServer) -> None:
    with pytest.raises(PySparkException, match="the token is not accepted"):
        table(at_server, "runs", url=server.url, token="stranger").collect()


def test_the_source_is_registered_when_a_task_first_uses_it(
    at_server: SparkSession,
    server: EmbeddedServer,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if request.node.callspec.params["spark"] == "local":
        pytest.skip("a task's session is one of Spark Connect")
    token = server.tokens.issue(UserIdentity("anna", Role.VIEWER))
    asked: list[Location] = []
    for kind in (DataFrameReader, DataFrameWriter):
        monkeypatch.setattr(kind, "format", kind.format)

    def locate() -> Location:
        asked.append(Location(server.url, token))
        return asked[-1]

    register_on_use(at_server, locate)
    before = len(asked)
    counts = [table(at_server, "runs").count() for _ in range(2)]

    assert (before, counts, len(asked)) == (0, [1, 1], 1)


def test_a_database_is_read_where_holdfast_is_installed(
    spark: SparkSession, server: EmbeddedServer, request: pytest.FixtureRequest
) -> None:
    register(spark, load().database_url)
    has_holdfast = request.node.callspec.params["spark"] != "cluster"

    try:
        outcome: Any = table(spark, "task_store").count()
    except PySparkException as error:
        outcome = "install them there, or use a server" in str(error)

    assert outcome == (4 if has_holdfast else True)
