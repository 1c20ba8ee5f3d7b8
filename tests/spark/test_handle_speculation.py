"""Speculative execution: two copies of one partition that write at the same time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import Row, SparkSession
from sparks import CONF, bare_python
from standalone import standalone_cluster

import holdfast

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "10ms",
    "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.cores.max": "4",
}


def load(directory: Path, master: str) -> dict[str, Any]:
    """Load four partitions, the first of which ends when there have been two copies of it."""
    os.chdir(directory)
    os.environ["PYSPARK_PYTHON"] = str(bare_python(directory / "python"))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = SparkSession.builder.master(master).config(map=CONF | SPECULATION).getOrCreate()
    with holdfast.connect() as connection:
        store = connection.task_store("sales", "monday", "load")
        handle = store.handle()

        def write(rows: Iterator[Row]) -> None:
            numbers = [row.id for row in rows]
            task: Any = TaskContext.get()
            with handle.batch() as batch:
                for number in numbers:
                    batch.set(str(number), number * 2)
            if task.partitionId() == 0:
                handle.set(f"copy {task.attemptNumber()}", True)
                while handle.get("copy 0") is None or handle.get("copy 1") is None:
                    time.sleep(0.05)
            handle.set_many({str(number): number * 2 for number in numbers})

        spark.range(0, 8, numPartitions=4).foreachPartition(write)
        found = dict(store.items())
    spark.stop()
    return found


@pytest.mark.full
def test_speculative_copies_leave_the_same_state_as_one(
    tmp_path: Path, in_process: Callable[..., Any]
) -> None:
    with standalone_cluster(tmp_path / "cluster") as cluster:
        # Another host for Spark: a copy never runs on the host of the original.
        cluster.start_worker(cores=2, host="localhost")
        found = in_process(load, tmp_path, cluster.master)

    assert (found.pop("copy 0"), found.pop("copy 1")) == (True, True)
    assert found == {str(number): number * 2 for number in range(8)}
