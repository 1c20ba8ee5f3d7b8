"""Loads by version of tables on S3, over HTTP, whose executors have no S3 file system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from loading import connection
from objectserver import ObjectServer, object_server
from pyspark.sql import SparkSession
from readers import read_by_all

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import TableChanged
from holdfast.spark import delta, iceberg, incremental


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[AssetStore]:
    with connection(tmp_path) as opened:
        yield opened.asset_store(name="orders", declare=True)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "odd": [str(id % 2) for id in ids]})


def test_a_delta_table_on_s3_is_loaded_by_version(
    local_spark: SparkSession, server: ObjectServer, orders: AssetStore
) -> None:
    raw = delta(f"{server.make_bucket()}/lake/raw", storage_options=dict(server.environment))

    def append(*ids: int) -> None:
        write_deltalake(
            raw.location,
            rows(*ids),
            mode="append",
            partition_by=["odd"],
            storage_options=raw._options,
        )

    append(1, 2)
    assert sorted(row.id for row in incremental(raw, orders).df.collect()) == [1, 2]
    incremental(raw, orders).write(lambda df: None)
    append(3)
    DeltaTable(raw.location, storage_options=raw._options).optimize.compact()
    append(4)
    new = incremental(raw, orders)
    assert sorted(row.id for row in new.df.collect()) == [3, 4]
    assert [row["id"] for row in read_by_all(local_spark, raw)] == [1, 2, 3, 4]
    table = DeltaTable(raw.location, storage_options=raw._options)
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(TableChanged, match="compacted and then deleted"):
        incremental(raw, orders)


def test_an_iceberg_table_on_s3_is_loaded_by_version(
    local_spark: SparkSession, server: ObjectServer, orders: AssetStore, tmp_path: Path
) -> None:
    environment = server.environment
    raw = iceberg(
        "sales.raw",
        catalog={
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/catalog.db",
            "warehouse": f"{server.make_bucket()}/warehouse",
            "s3.endpoint": server.endpoint,
            "s3.access-key-id": environment["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": environment["AWS_SECRET_ACCESS_KEY"],
            "s3.region": environment.get("AWS_REGION", "us-east-1"),
        },
    )
    raw.catalog().create_namespace("sales")
    made = raw.catalog().create_table("sales.raw", rows(1).schema)
    made.append(rows(1, 2))
    incremental(raw, orders).write(lambda df: None)
    made.append(rows(3))
    new = incremental(raw, orders)
    assert [row.id for row in new.df.collect()] == [3]
    assert [row["id"] for row in read_by_all(local_spark, raw)] == [1, 2, 3]
