"""Data source in a task, without the address of the store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.commands import GetResults

PIPELINE = """
from holdfast.sdk import Asset, dag, task

orders = Asset("orders")


@dag
def reports():
    @task(outlets=[orders])
    def load(asset_store, task_store):
        task_store.set("rows", 12)
        asset_store.set("until", "2026-01-31")

    @task.pyspark
    def freshness(spark):
        def table(name):
            return spark.read.format("holdfast").option("table", name).load()

        assets = table("asset_store").select("asset", "value").collect()
        entries = table("task_store").filter("key = 'rows'").select("task_id", "value").collect()
        return [list(row) for row in [*assets, *entries]]

    load() >> freshness()


reports()
"""


@pytest.mark.full
def test_a_task_reads_the_entries_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reports.py").write_text(PIPELINE)

    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "run", "reports.py", "--run-id", "r"],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    with holdfast.connect() as connection:
        results = connection.store.execute(GetResults("reports", "r", "freshness"))
    assert results == ((-1, '[["orders","\\"2026-01-31\\""],["load","12"]]'),)
