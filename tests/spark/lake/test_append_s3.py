"""Appends to Delta tables on S3, over HTTP, with responses that are lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
from appending import append_in_process, ids, load_of
from deltalake import DeltaTable
from kept import Kept
from loading import connection
from lossy import ANSWER, REQUEST, UNAVAILABLE, LossyProxy, losing
from objectserver import ObjectServer, object_server
from pyspark.sql import SparkSession

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import BackendFailed, HoldfastError, InvalidInput
from holdfast.spark import delta
from holdfast.spark.lake.delta import DeltaLake

MakeTable = Callable[..., DeltaLake]


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


@pytest.fixture
def proxy(server: ObjectServer) -> Iterator[LossyProxy]:
    with losing(server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def make_table(server: ObjectServer) -> MakeTable:
    location = f"{server.make_bucket()}/lake/facts"

    def make(endpoint: str = server.endpoint, **options: str) -> DeltaLake:
        every = {**server.environment, "AWS_ENDPOINT_URL": endpoint, **options}
        return delta(location, storage_options=every, create=True, partition_by="part")

    return make


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[AssetStore]:
    with connection(tmp_path) as opened:
        yield opened.asset_store(name="orders", declare=True)


# The executors of the cluster have no obstore: test_executor_files has the error.
@pytest.mark.parametrize("spark", ["local", "connect"], indirect=True)
def test_loads_are_appended_on_s3(
    spark: SparkSession, orders: AssetStore, make_table: MakeTable
) -> None:
    facts = make_table()
    for count in (5, 9, 9):
        load_of(spark, orders, count).append(facts)

    assert ids(facts) == [*range(9)]
    assert DeltaTable(facts.location, storage_options=facts._options).version() == 2


@pytest.mark.parametrize("loss", [REQUEST, ANSWER, UNAVAILABLE])
def test_a_commit_whose_response_is_lost_counts_once(
    in_process: Callable[..., str],
    spark_server: Kept,
    make_table: MakeTable,
    proxy: LossyProxy,
    tmp_path: Path,
    loss: str,
) -> None:
    def append(count: int, table: DeltaLake) -> str:
        # In another process: deltalake waits for the storage without releasing the GIL.
        arguments = (spark_server.address, tmp_path, table, count, "", 0)
        return in_process(append_in_process, *arguments)

    assert append(3, make_table()) == ""
    proxy.about, proxy.losses = b"_delta_log/00000000000000000002.json", [loss, loss]
    assert append(7, make_table(proxy.url)) == ""
    assert proxy.losses == []
    assert append(9, make_table()) == ""

    opened = DeltaTable(make_table().location, storage_options=make_table()._options)
    stamps = [commit["holdfast"] for commit in opened.history() if "holdfast" in commit]
    assert [stamp["rows"] for stamp in stamps] == [2, 4, 3]
    assert ids(make_table()) == [*range(9)]


@pytest.mark.full
def test_runs_at_once_append_once(
    forking: ForkServerContext,
    spark_server: Kept,
    orders: AssetStore,
    make_table: MakeTable,
    tmp_path: Path,
) -> None:
    arguments = (spark_server.address, tmp_path, make_table(), 5, "", 0)
    with ProcessPoolExecutor(3, mp_context=forking) as pool:
        errors = [pool.submit(append_in_process, *arguments) for _ in range(3)]
        kinds = sorted(error.result(120).partition(":")[0] for error in errors)

    assert set(kinds) <= {"", "VersionConflict", "SparkBusy"}
    assert append_in_process(*arguments) == ""
    assert ids(make_table()) == [*range(5)]


def test_storage_that_does_not_answer_is_a_clear_error(
    spark: SparkSession, orders: AssetStore, make_table: MakeTable
) -> None:
    options = {"max_retries": "0", "retry_timeout": "1s"}
    with pytest.raises(BackendFailed, match="cannot use the Delta table s3://") as caught:
        load_of(spark, orders, 5).append(make_table("http://127.0.0.1:9", **options))
    assert "storage_options" in caught.value.hint
    with pytest.raises(HoldfastError, match="cannot use the Delta table"):
        load_of(spark, orders, 5).append(
            delta("s3://no-such-bucket/x", storage_options=make_table()._options, create=True)
        )
    assert orders.get("watermark") is None


@pytest.mark.parametrize(
    "options", [{"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}, {"aws_conditional_put": "disabled"}]
)
def test_options_with_which_commits_overwrite_each_other_are_refused(
    options: dict[str, str],
) -> None:
    with pytest.raises(InvalidInput, match="one commit to overwrite another"):
        delta("s3://lake/facts", storage_options=options)
