"""Three readers of lake tables: the library of the format, Spark, and Sail, an independent engine.

`read_by_all` asserts that they agree, and returns the rows.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.spark.lake.delta import DeltaLake
from holdfast.spark.lake.iceberg import IcebergTable
from holdfast.spark.lake.table import LakeTable
from holdfast.spark.lake.table_reader import read_table

_ROOT = Path(__file__).parents[3]
_SAIL = _ROOT / ".venv-sail" / "bin" / "python"
_OPTIONS = {
    "aws_endpoint_url": "AWS_ENDPOINT",
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_region": "AWS_REGION",
}
"""Configuration of object storage, and the variables by which Sail knows it."""


def by_library(table: LakeTable) -> pa.Table:
    """Return the rows as deltalake or PyIceberg reads them."""
    if isinstance(table, DeltaLake):
        import deltalake

        found = deltalake.DeltaTable(table.location, storage_options=table._options or None)
        return pa.table(found.scan().read_all())
    assert isinstance(table, IcebergTable)
    opened = table.open()
    assert opened is not None
    return opened.table.scan().to_arrow()


def by_spark(spark: SparkSession, table: LakeTable, version: int | None = None) -> pa.Table:
    """Return the rows as `read_table` reads them on Spark's executors."""
    return read_table(spark, table, version).toArrow()


def by_sail(table: LakeTable) -> pa.Table:
    """Return the rows as Sail reads them, in a process of its own."""
    _install()
    kind = "delta" if isinstance(table, DeltaLake) else "iceberg"
    opened = table.open()
    assert opened is not None
    given = {key.lower(): value for key, value in opened.storage.options.items()}
    known = {_OPTIONS[key]: value for key, value in given.items() if key in _OPTIONS}
    process = subprocess.run(
        [_SAIL, Path(__file__).with_name("sail_reader.py"), kind, opened.storage.location],
        env={**os.environ, "AWS_ALLOW_HTTP": "true", **known},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr.decode()[-2000:]
    return pa.ipc.open_stream(process.stdout).read_all()


def read_by_all(spark: SparkSession, table: LakeTable) -> list[dict[str, Any]]:
    """Return the rows of a table, on which all readers agree, in the order of their columns."""
    library, here, sail = (
        in_order(rows) for rows in (by_library(table), by_spark(spark, table), by_sail(table))
    )
    assert library == here
    assert library == sail
    return library


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows as Python values, in an order that does not depend on the reader."""
    return sorted(rows.to_pylist(), key=repr)


@cache
def _install() -> None:
    made = subprocess.run([_ROOT / "setup" / "install_sail.sh"], capture_output=True, check=False)
    assert made.returncode == 0, f"Sail cannot be installed: {made.stderr.decode()[-300:]}"
