"""Appends of loads to Iceberg tables, in processes that are killed or paused at a chosen step."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from appending import asset_in, load_of
from attempt import session_of
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

from holdfast.errors import HoldfastError
from holdfast.spark.lake import append as appends
from holdfast.spark.lake.iceberg import IcebergTable, iceberg
from holdfast.spark.lake.iceberg_commit import OpenIcebergTable
from holdfast.spark.loads.load import Load
from holdfast.spark.session.address import SparkAddress

STEPS = ("planned", "written", "confirmed", "sending", "answered", "committed", "appended")
"""Where a process is disturbed: before the table is opened, after the files are written, just
before the commit, before and after its request, after it, and before the watermark is set."""


def append_in_process(
    address: SparkAddress, directory: Path, table: IcebergTable, count: int, step: str, signal: int
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
    """Have this process do something at a step of its first append."""
    owners: list[Any]
    owners, name, is_after = {
        "planned": ([IcebergTable], "open", False),
        "written": ([appends], "_write", True),
        "confirmed": ([OpenIcebergTable], "append", False),
        "sending": ([SqlCatalog, RestCatalog], "commit_table", False),
        "answered": ([SqlCatalog, RestCatalog], "commit_table", True),
        "committed": ([OpenIcebergTable], "append", True),
        "appended": ([Load], "_finish", False),
    }[step]
    originals = {owner: getattr(owner, name) for owner in owners}

    def replaced(owner: Any) -> Any:
        def disturbed(*arguments: Any, **named: Any) -> Any:
            for each, original in originals.items():
                setattr(each, name, original)
            if not is_after:
                act()
            answer = originals[owner](*arguments, **named)
            if is_after:
                act()
            return answer

        return disturbed

    for owner in owners:
        setattr(owner, name, replaced(owner))


def catalog_of(table: IcebergTable) -> Catalog:
    return table.catalog()


def new_table(directory: Path, **options: Any) -> IcebergTable:
    """Return a table that does not exist yet, in a new catalog with its namespace."""
    uri = f"sqlite:///{directory}/catalog.db"
    properties = {"type": "sql", "uri": uri, "warehouse": f"file://{directory}/lake"}
    table = iceberg("lake.facts", catalog=properties, create=True, **options)
    table.catalog().create_namespace("lake")
    return table
