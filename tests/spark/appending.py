"""Appends of loads to lake tables, in processes that are killed or paused at a chosen step."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import deltalake
from attempt import session_of

import holdfast
from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import HoldfastError
from holdfast.spark import delta, incremental
from holdfast.spark.lake import append as appends
from holdfast.spark.lake.delta import DeltaLake, OpenDelta
from holdfast.spark.loads.load import Load
from holdfast.spark.session.address import SparkAddress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STEPS = ("planned", "written", "confirmed", "committed", "appended")
"""Where a process is disturbed: before the table is opened, after the files are written, just
before the commit, just after it, and before the watermark is set."""


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, 1, 2).selectExpr("id", "id % 3 AS part", "concat('n', id) AS name")


def asset_in(directory: Path) -> AssetStore:
    connection = holdfast.connect(f"sqlite:///{directory}/state.db")
    return connection.asset_store(name="orders", declare=True)


def load_of(spark: SparkSession, asset: AssetStore, count: int) -> Load:
    return incremental(numbers(spark, count), asset, cursor="id")


def ids(table: DeltaLake) -> list[int]:
    """Return the rows of a table, as its library reads them."""
    opened = deltalake.DeltaTable(table.location, storage_options=table._options or None)
    return sorted(opened.to_pyarrow_table(columns=["id"])["id"].to_pylist())


def append_in_process(
    address: SparkAddress, directory: Path, table: DeltaLake, count: int, step: str, signal: int
) -> str:
    """Append a load, and send this process a signal at a step; return the error, if any."""
    if step:
        disturb(step, partial(os.kill, os.getpid(), signal))
    with session_of(address, f"load-{uuid4()}") as session:
        spark: Any = session
        try:
            load_of(spark, asset_in(directory), count).append(table)
        except HoldfastError as error:
            return f"{type(error).__name__}: {error}"
    return ""


def disturb(step: str, act: Callable[[], object]) -> None:
    """Have this process do something at a step of its first append, or once it has looked for an
    earlier commit."""
    owner: Any
    owner, name, is_after = {
        "planned": (DeltaLake, "open", False),
        "looked": (appends, "_prepared", False),
        "written": (appends, "_write", True),
        "confirmed": (OpenDelta, "append", False),
        "committed": (OpenDelta, "append", True),
        "appended": (Load, "_finish", False),
    }[step]
    original = getattr(owner, name)

    def disturbed(*arguments: Any, **named: Any) -> Any:
        setattr(owner, name, original)
        if not is_after:
            act()
        answer = original(*arguments, **named)
        if is_after:
            act()
        return answer

    setattr(owner, name, disturbed)


def new_table(directory: Path, **options: Any) -> DeltaLake:
    return delta(directory / "facts", create=True, **options)
