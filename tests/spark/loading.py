"""Incremental loads into a table with one part for each load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import holdfast
from holdfast.spark.loads import directory_writer
from holdfast.spark.loads import load as loads
from holdfast.spark.loads.load import Load, Loaded

SCHEMA = "id long, at long"


class Table:
    """Rows that loads have written; one that starts where another failed replaces its rows."""

    def __init__(self) -> None:
        self.parts: dict[str, list[Row]] = {}

    def load(self, load: Load) -> Loaded:
        return load.write(self.writer(load))

    def writer(self, load: Load) -> Callable[[DataFrame], None]:
        def write(new: DataFrame) -> None:
            self.parts[load.name] = new.collect()

        return write

    def rows(self) -> list[Any]:
        return sorted(tuple(row) for part in self.parts.values() for row in part)


def connection(directory: Path) -> holdfast.Connection:
    return holdfast.connect(f"sqlite:///{directory / 'state.db'}")


def frame(spark: SparkSession, rows: list[Any], schema: str = SCHEMA) -> DataFrame:
    return spark.createDataFrame(rows, schema)


def save_without_renames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let loads be saved as on storage that renames no directories."""
    for module in (loads, directory_writer):
        monkeypatch.setattr(module, "renames", lambda spark, path: False)
