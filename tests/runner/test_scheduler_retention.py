"""Retention by a scheduler: old runs, events and logs are deleted without a command."""

from __future__ import annotations

import pytest
from project import Project, wait_until

from holdfast import commands as c
from holdfast.model.scope import AssetScope, TaskScope

CLEANING = {
    "HOLDFAST__STATE_STORE__CLEANUP_INTERVAL": "1s",
    "HOLDFAST__RETENTION__RUNS": "1s",
    "HOLDFAST__RETENTION__ASSET_EVENTS": "1s",
}
SECONDLY = """\
from datetime import timedelta
from holdfast.sdk import DAG, Asset, task

with DAG("secondly", schedule=timedelta(seconds=1)):

    @task(outlets=[Asset("orders")])
    def load(task_store):
        task_store.set("cursor", 1, retention=timedelta(seconds=1))
        print("loaded")

    load()
"""
DAILY = """\
from datetime import datetime, timedelta, timezone
from holdfast.sdk import DAG, task

TODAY = datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)

with DAG("daily", schedule="@daily", start_date=TODAY - timedelta(days=5), catchup=True):

    @task
    def work(logical_date=None):
        with open("dates", "a") as dates:
            dates.write(f"{logical_date.date()}\\n")

    work()
"""


@pytest.mark.full
def test_a_scheduler_deletes_what_is_older_than_its_retention(project: Project) -> None:
    project.write("dags/secondly.py", SECONDLY)
    logs = project.home / "logs" / "secondly"
    orders = AssetScope(name="orders")
    with project.service("scheduler", "dags", **CLEANING):
        wait_until(logs.exists)
        first = project.runs("secondly")[0].run_id
        project.holdfast(
            *("state-store", "set", "--dag-id", "secondly", "--run-id", first),
            *("--task-id", "load", "contract", "1", "--retention", "never"),
        )
        project.store.execute(c.RegisterTask(TaskScope("script", "r", "t")))
        wait_until(lambda: project.read("scheduler.err").count("removed by age") >= 3)
    events = project.store.execute(c.ListAssetEvents(orders))
    runs = [run.run_id for run in project.runs("secondly")]
    logged = {path.name.replace("%3A", ":") for path in logs.iterdir()}

    assert runs[0] == first
    assert len(runs) < events[0].number
    assert len(events) < events[0].number
    assert logged <= set(runs)
    assert project.run_of("script", "r").state == "idle"


@pytest.mark.full
def test_deleted_runs_are_not_created_again_by_catchup(project: Project) -> None:
    project.write("dags/daily.py", DAILY)
    for starts in (1, 2):
        with project.service("scheduler", "dags", **CLEANING):
            read = "daily.py: daily"
            wait_until(lambda: project.read("scheduler.err").count(read) == starts)  # noqa: B023
            wait_until(lambda: len(project.read("dates").splitlines()) >= 5)
            wait_until(lambda: len(project.runs("daily")) == 1)
    dates = project.read("dates").splitlines()

    assert sorted(dates) == sorted(set(dates))
    assert len(list((project.home / "logs" / "daily").iterdir())) == 1
