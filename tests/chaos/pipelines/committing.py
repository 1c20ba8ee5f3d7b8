"""Pipeline whose attempts are killed while Spark commits their writes."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from holdfast.sdk import dag, task

HERE = Path(__file__).parent
PLACE = os.environ["COMMITS"]
CHUNKS = int(os.environ["CHUNKS"])
ROWS = 40


@dag(schedule=None, default_args={"retries": 10_000, "retry_delay": timedelta(0)})
def committing():
    @task
    def parts():
        return [0, 1]

    @task.pyspark
    def write(part, spark=None, task_store=None):
        """Write a chunk; every other one has a shuffle, which Spark writes in another way."""
        (HERE / f"process-{part}").write_text(str(os.getpid()))
        for chunk in range(task_store.get("done", 0), CHUNKS):
            first = (part * CHUNKS + chunk) * ROWS
            rows = spark.range(first, first + ROWS, 1, 2)
            rows = rows.repartition(2) if chunk % 2 else rows
            rows.write.mode("overwrite").json(f"{PLACE}/part={part}/chunk={chunk}")
            task_store.set("done", chunk + 1)

    write.expand(part=parts())


committing()
