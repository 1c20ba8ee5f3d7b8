"""Pipeline with all that a crash could damage: chunks, mapped tasks, staged writes, Spark."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from holdfast.sdk import Asset, dag, task

HERE = Path(__file__).parent
CHUNKS = 4
ROWS = 500

orders = Asset("orders", uri="file:///orders")
patient = {"retries": 6, "retry_delay": timedelta(0)}


@dag(schedule=None, default_args=patient, max_active_tasks=2)
def loading():
    @task
    def parts():
        return [0, 1, 2]

    @task.pyspark(inlets=[orders])
    def load(part, spark=None, task_store=None, asset_store=None):
        """Write each chunk once, unless a crash comes between its write and its record."""
        for chunk in range(CHUNKS):
            if task_store.get(f"chunk-{chunk}") is not None:
                continue
            first = (part * CHUNKS + chunk) * ROWS
            rows = spark.range(first, first + ROWS).selectExpr("id", "id * id AS square")
            place = HERE / "out" / "orders" / f"part={part}" / f"chunk={chunk}"
            rows.write.mode("overwrite").parquet(str(place))
            task_store.set(f"chunk-{chunk}", ROWS)
            asset_store.advance("newest", first + ROWS - 1)
        return sum(task_store.get(f"chunk-{chunk}") for chunk in range(CHUNKS))

    @task.pyspark(outlets=[orders])
    def merge(counts, spark=None, asset_store=None):
        merged = spark.read.parquet(str(HERE / "out" / "orders")).groupBy("part").count()
        merged.coalesce(1).write.mode("overwrite").parquet(str(HERE / "out" / "summary"))
        before = asset_store.entry("loads")
        version = before.version if before else 0
        asset_store.set("rows", sum(counts), on_success=True)
        loads = (before.value if before else 0) + 1
        asset_store.set("loads", loads, on_success=True, if_version=version)
        return sum(counts)

    @task(outlets=[Asset("report")])
    def report(total, task_store=None):
        task_store.set("total", total)
        return {"total": total}

    report(merge(load.expand(part=parts())))


loading()
