"""Metrics of real runs, counted by a scheduler and a triggerer and exported by a server."""

from __future__ import annotations

import re
import urllib.request

import pytest
from project import Project, wait_until
from serving import Served

DAGS = """
    import asyncio
    from datetime import timedelta
    from holdfast.sdk import DAG, Asset, AssetWatcher, BaseEventTrigger, TriggerEvent, task

    class Broken(BaseEventTrigger):
        async def run(self):
            yield TriggerEvent("once")
            raise ValueError("gone")

    landed = Asset("landed", watchers=[AssetWatcher(name="files", trigger=Broken())])

    with DAG("good", schedule="@once"):

        @task
        def load(number):
            pass

        load.expand(number=[1, 2, 3])

    with DAG("bad", schedule="@once"):

        @task(retries=1, retry_delay=timedelta(seconds=0.2))
        def load():
            raise ValueError("no")

        @task
        def report(loaded):
            pass

        report(load())

    with DAG("waits"):

        @task(outlets=[landed])
        def load():
            asyncio.run(asyncio.sleep(60))

        load()
    """


QUICK = """
    from holdfast.runner.service import sign_of_life
    sign_of_life.INTERVAL = 0.5
    """
FAILURES = 'holdfast_watcher_failures_total{asset="landed",watcher="files"}'
FAILED_RUNS = 'holdfast_run_ends_total{dag_id="bad",state="failed"}'
SCHEDULERS = 'holdfast_services{service="scheduler",state="alive"}'


def scrape(url: str) -> dict[str, float]:
    text = urllib.request.urlopen(f"{url}/metrics").read().decode()
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


@pytest.mark.full
def test_one_scrape_of_a_server_has_the_metrics_of_all_services(project: Project) -> None:
    project.write("dags/dag.py", DAGS)
    project.write("dags/broken.py", "DAG holdfast")
    project.write("quick/sitecustomize.py", QUICK)
    quick = {"PYTHONPATH": str(project.path("quick"))}
    with project.service("scheduler", "dags", **quick), project.service("triggerer", **quick):
        wait_until((project.home / "holdfast.db").exists)
        served = Served(project)
        wait_until(lambda: project.runs("good") and project.runs("good")[0].state.ended)
        wait_until(lambda: project.runs("bad") and project.runs("bad")[0].state.ended)
        project.holdfast("runs", "trigger", "waits")
        wait_until(lambda: FAILURES in scrape(served.url))
        wait_until(lambda: scrape(served.url).get(FAILED_RUNS))
        wait_until(lambda: scrape(served.url)['holdfast_tasks{state="running"}'])
        found = scrape(served.url)
    wait_until(lambda: scrape(served.url)[SCHEDULERS] == 0)
    after = scrape(served.url)
    served.close()

    expected = {
        'holdfast_run_ends_total{dag_id="good",state="success"}': 1,
        FAILED_RUNS: 1,
        'holdfast_task_ends_total{dag_id="good",state="success"}': 3,
        'holdfast_task_ends_total{dag_id="bad",state="failed"}': 1,
        'holdfast_task_ends_total{dag_id="bad",state="upstream_failed"}': 1,
        'holdfast_task_retries_total{dag_id="bad"}': 1,
        'holdfast_task_duration_seconds_count{dag_id="good"}': 3,
        'holdfast_task_duration_seconds_bucket{dag_id="good",le="+Inf"}': 3,
        'holdfast_run_duration_seconds_count{dag_id="bad"}': 1,
        "holdfast_schedule_delay_seconds_count": 2,
    }
    current = {
        'holdfast_runs{dag_id="waits",state="running"}': 1,
        'holdfast_tasks{state="running"}': 1,
        "holdfast_import_errors": 1,
        "holdfast_dags": 3,
        'holdfast_pool_slots{pool="default_pool"}': 128,
        'holdfast_pool_used_slots{pool="default_pool"}': 1,
        SCHEDULERS: 1,
        'holdfast_services{service="triggerer",state="alive"}': 1,
    }
    assert found.items() >= (expected | current).items()
    assert found[FAILURES] >= 1
    assert found['holdfast_watcher_last_event_timestamp_seconds{asset="landed",watcher="files"}']
    ages = [found[name] for name in found if re.match(r"holdfast_service_age_seconds\{", name)]
    assert len(ages) == 2 and max(ages) < 30
    assert after.items() >= expected.items()
    assert after['holdfast_task_interruptions_total{dag_id="waits"}'] == 1
    assert not any(name.startswith("holdfast_service_age_seconds{") for name in after)
