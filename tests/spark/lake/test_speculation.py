"""Speculative execution: two copies of a Spark task that write files at the same time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession
from sparks import CONF, bare_python
from standalone import standalone_cluster
from test_handle_speculation import SPECULATION

from holdfast.portable.lake.footers import metadata_of
from holdfast.portable.lake.storage import open_files
from holdfast.spark.lake.executor_files import write_files
from holdfast.spark.lake.table import Storage

PLACE = "data-holdfast/load/attempt"


def late(marks: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows; both copies of the first Spark task wait for each other before the end."""
    yield from batches
    task: Any = TaskContext.get()
    if task.partitionId() == 0:
        (marks / str(task.attemptNumber())).touch()
        while len(list(marks.iterdir())) < 2:
            time.sleep(0.05)


def write(directory: Path, master: str) -> tuple[list[str], list[str], int]:
    """Return the files that were reported, those that exist, and the rows of the former."""
    os.chdir(directory)
    os.environ["PYSPARK_PYTHON"] = str(bare_python(directory / "python"))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    cloudpickle.register_pickle_by_value(__import__(__name__))
    spark = SparkSession.builder.master(master).config(map=CONF | SPECULATION).getOrCreate()
    marks = directory / "marks"
    marks.mkdir()
    storage = Storage(str(directory / "table"), {})
    rows = spark.range(0, 400, 1, 4).selectExpr("id", "id % 3 AS p")
    slow = rows.mapInArrow(partial(late, marks), rows.schema)

    files = write_files(slow, storage, PLACE, ["p"], keep_partition_columns=False)

    spark.stop()
    count = sum(metadata_of(file.footer).num_rows for file in files)
    there = [file.path for file in open_files(*storage).list(PLACE)]
    return [file.path for file in files], there, count


@pytest.mark.full
def test_the_files_of_one_copy_count(tmp_path: Path, in_process: Callable[..., Any]) -> None:
    with standalone_cluster(tmp_path / "cluster") as cluster:
        # Another host for Spark: a copy never runs on the host of the original.
        cluster.start_worker(cores=2, host="localhost")
        reported, there, rows = in_process(write, tmp_path, cluster.master)

    assert len(list((tmp_path / "marks").iterdir())) == 2
    assert len(reported) == len(set(reported)) == 12
    assert set(reported) <= set(there)
    assert rows == 400
