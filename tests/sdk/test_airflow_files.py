"""Files written for `airflow.sdk`, with only the import changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from task_runs import Pipeline

from holdfast.model.dag import AssetSpec, Cron, OnAssets
from holdfast.model.run import AssetEvent, EmittedEvent, TriggerRule
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.runner.protocol.messages import Succeeded

Make = Callable[[str], Pipeline]

STORES = '''
from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG, NEVER_EXPIRE, Asset, get_current_context, task

orders = Asset(name="orders", uri="s3://lake/orders")

with DAG(
    dag_id="ingest",
    schedule="0 3 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    default_args={"owner": "data", "retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["ingest"],
) as dag:

    @task
    def pages() -> list[int]:
        return [1, 2, 3]

    @task(max_active_tis_per_dagrun=2)
    def fetch(page: int, task_state_store=None) -> dict[str, int]:
        """Fetches one page."""
        done = task_state_store.get("done", default=0)
        task_state_store.set("done", done + page, retention=NEVER_EXPIRE)
        return {"rows": page * 10}

    @task(outlets=[orders], trigger_rule="all_done")
    def publish(found, **context):
        store = context["asset_state_store"][orders]
        total = sum(one["rows"] for one in found)
        store.set("rows", store.get("rows", default=0) + total)
        context["outlet_events"][orders].extra = {"rows": total}
        return get_current_context()["ti"].xcom_pull(task_ids="pages")

    publish(fetch.expand(page=pages()))
'''

CONSUMER = """
import asyncio

from airflow.sdk import Asset, dag, task

@dag(schedule=[Asset(name="orders", uri="s3://lake/orders")], catchup=False)
def report():
    @task(inlets=[Asset(name="orders", uri="s3://lake/orders")])
    async def read(*, triggering_asset_events, asset_state_store, task_state_store):
        events = [event for found in triggering_asset_events.values() for event in found]
        rows = [event.extra["rows"] for event in events]
        await task_state_store.aset("seen", rows)
        await asyncio.sleep(0)
        return {"total": await asset_state_store.aget("rows"), "rows": rows}

    @task
    def show(total: int) -> str:
        return f"{total} rows"

    show(read()["total"])

report()
"""

ASSETS = """
from airflow.sdk import Asset, asset

@asset(schedule="@daily", uri="s3://lake/raw", group="lake")
def raw(self, context):
    context["asset_state_store"][self].set("day", context["ds"])

@asset(schedule=Asset("raw", "s3://lake/raw"))
def clean(context, raw):
    return context["asset_state_store"][Asset.ref(name="raw")].get("day")
"""

OPERATOR = """
from airflow.sdk import DAG, BaseOperator, ResumableJobMixin, chain

class SubmitOperator(ResumableJobMixin, BaseOperator):
    template_fields = ("application",)
    external_id_key = "driver_id"

    def __init__(self, *, application: str, **kwargs) -> None:
        super().__init__(**kwargs)
        self.application = application

    def execute(self, context):
        return self.execute_resumable(context)

    def submit_job(self, context):
        return f"driver-of-{self.application}"

    def get_job_status(self, external_id, context):
        return "FINISHED"

    def is_job_active(self, status):
        return status == "RUNNING"

    def is_job_succeeded(self, status):
        return status == "FINISHED"

    def poll_until_complete(self, external_id, context):
        self.log.info("waiting for %s", external_id)

    def get_job_result(self, external_id, context):
        return external_id

with DAG("submit", schedule=None, doc_md="Submits.", params={"n": 1}):
    first = SubmitOperator(task_id="first", application="a.py", durable=True)
    second = SubmitOperator(task_id="second", application=first.output, pool="spark")
    chain(first, second)
"""


@pytest.fixture
def ported(pipeline: Make) -> Make:
    """Return the pipeline with only its import changed."""
    return lambda text: pipeline(
        text.replace("from airflow.sdk import", "from holdfast.sdk import")
    )


def test_a_file_with_stores_and_mapped_tasks_runs(ported: Make) -> None:
    pipeline = ported(STORES)
    spec = pipeline.spec
    pipeline.run("pages")
    for index in range(3):
        pipeline.run("fetch", index)

    report = pipeline.run("publish")

    assert spec.schedule == Cron("0 3 * * *")
    assert [(one.task_id, one.retries, one.max_active) for one in spec.tasks] == [
        ("pages", 2, None),
        ("fetch", 2, 2),
        ("publish", 2, None),
    ]
    assert spec.tasks[2].trigger_rule is TriggerRule.ALL_DONE
    assert report == Succeeded(
        result="[1,2,3]", events=(EmittedEvent("orders", "s3://lake/orders", '{"rows":60}'),)
    )
    assert pipeline.task_value("fetch", "done", 1) == 2
    assert pipeline.asset_value("orders", "rows") == 60


def test_a_file_with_an_asset_consumer_and_an_async_task_runs(ported: Make) -> None:
    pipeline = ported(CONSUMER)
    pipeline.store.run_events = [
        AssetEvent(
            asset=AssetScope(1, "orders", "s3://lake/orders"),
            number=1,
            at=datetime(2026, 1, 1, tzinfo=UTC),
            extra='{"rows":60}',
            source=TaskScope("ingest", "r", "publish"),
        )
    ]

    assert pipeline.spec.schedule == OnAssets(AssetSpec("orders", "s3://lake/orders"))
    assert pipeline.result("read") == {"total": None, "rows": [60]}
    assert pipeline.task_value("read", "seen") == [60]
    assert pipeline.result("show") == "None rows"


def test_a_file_with_asset_functions_runs(ported: Make) -> None:
    pipeline = ported(ASSETS)
    pipeline.logical_date = datetime(2026, 1, 2, tzinfo=UTC)
    raw, clean = pipeline.specs

    assert (raw.schedule, clean.dag_id) == (Cron("0 0 * * *"), "clean")
    pipeline.run("raw")
    assert pipeline.result("clean") == "2026-01-02"


def test_a_file_with_job_operators_runs(ported: Make) -> None:
    pipeline = ported(OPERATOR)

    assert pipeline.result("first") == "driver-of-a.py"
    assert pipeline.result("second") == "driver-of-driver-of-a.py"
    assert pipeline.task_value("second", "driver_id") == "driver-of-driver-of-a.py"
