"""Alerts of a real scheduler and of `holdfast run`, at a real webhook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import Project, new_project, wait_until
from receiver import Receiver, receiving
from servers import Server, postgres_server

from holdfast import commands as c

FAILING = """\
from holdfast.sdk import dag, task

@dag(schedule=None)
def etl():
    @task
    def load():
        raise ValueError("no rows")

    load()

etl()
"""
LATE = """\
from holdfast.sdk import DAG, Asset, task

with DAG("sales", schedule=None):

    @task(outlets=[Asset("orders")])
    def load(): ...

    load()
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def to(receiver: Receiver, **late_assets: str) -> dict[str, str]:
    return {
        "HOLDFAST__ALERTS__WEBHOOK_URL": receiver.url,
        "HOLDFAST__ALERTS__LATE_ASSETS": json.dumps(late_assets),
    }


@pytest.mark.full
def test_a_scheduler_reports_a_failed_run_once(project: Project, receiver: Receiver) -> None:
    project.write("dags/etl.py", FAILING)
    with project.service("scheduler", "dags", **to(receiver)):
        wait_until(lambda: "ready: 1 DAG" in project.read("scheduler.err"))
        project.holdfast("runs", "trigger", "etl", "--run-id", "monday")
        wait_until(lambda: receiver.taken != [])
    listed = project.holdfast("alerts", "list")

    [alert] = receiver.requests
    assert alert["text"] == "run monday of etl failed: load: ValueError: no rows"
    assert (alert["kind"], alert["dag_id"], alert["run_id"]) == ("run_failed", "etl", "monday")
    assert [task["task_id"] for task in alert["tasks"]] == ["load"]
    assert "delivered" in listed.out
    assert receiver.url not in project.read("scheduler.err") + listed.out


def test_an_alert_that_was_not_taken_is_sent_by_the_next_scheduler(
    project: Project, receiver: Receiver
) -> None:
    project.write("dags/etl.py", FAILING)
    receiver.planned = [503]
    project.holdfast("run", "dags/etl.py", "--run-id", "monday", **to(receiver))
    refused = list(receiver.requests)
    with project.service("scheduler", "dags", **to(receiver)):
        wait_until(lambda: receiver.taken != [])

    assert (len(refused), len(receiver.requests)) == (1, 2)
    assert receiver.taken == refused


@pytest.mark.full
def test_a_run_that_succeeds_or_that_somebody_stops_is_not_reported(
    project: Project, receiver: Receiver
) -> None:
    fine = FAILING.replace('raise ValueError("no rows")', "print(1)")
    project.write("etl.py", fine)
    project.holdfast("run", "etl.py", "--run-id", "monday", **to(receiver))
    project.holdfast("runs", "trigger", "etl", "--run-id", "tuesday")
    project.holdfast("runs", "stop", "etl", "tuesday")
    project.holdfast("runs", "mark", "etl", "monday", "--failed")

    assert project.store.execute(c.ListAlerts()) == ()
    assert receiver.requests == []


@pytest.mark.full
def test_a_late_asset_is_reported_and_resolved(project: Project, receiver: Receiver) -> None:
    project.write("dags/sales.py", LATE)
    with project.service("scheduler", "dags", **to(receiver, orders="1s", orderz="1h")):
        wait_until(lambda: len(receiver.taken) == 1)
    late, log = receiver.taken[0], project.read("scheduler.err")
    project.holdfast("assets", "event", "orders")
    with project.service("scheduler", "dags", **to(receiver, orders="1h")):
        wait_until(lambda: len(receiver.taken) == 2)

    assert late["text"].startswith("asset orders is late: it has had no event")
    assert late["late_after_seconds"] == 1
    assert [one["status"] for one in receiver.taken] == ["firing", "resolved"]
    assert receiver.taken[1]["text"] == "asset orders is no longer late"
    assert "late_assets names `orderz`, and no asset has this name" in log


@pytest.mark.full
def test_a_broken_file_is_reported_once_by_two_schedulers_and_resolved(
    tmp_path: Path, postgres: Server, receiver: Receiver
) -> None:
    with new_project(tmp_path, HOLDFAST__DATABASE__URL=postgres.new_database()) as project:
        project.write("dags/etl.py", f"import no_such_module\n{FAILING}")
        project.holdfast("db", "migrate")
        with (
            project.service("scheduler", "dags", **to(receiver)) as first,
            project.service("scheduler", "dags", **to(receiver)),
        ):
            wait_until(lambda: receiver.taken != [], timeout=120)
            # Until that is recorded, a killed scheduler holds the alert by its lease.
            wait_until(lambda: project.store.execute(c.ListAlerts())[0].delivered)
            first.kill()
            project.write("dags/etl.py", FAILING)
            wait_until(lambda: len(receiver.taken) == 2, timeout=60)

        texts = [one["text"] for one in receiver.requests]
        assert texts == [
            "DAG file etl.py cannot be used: ModuleNotFoundError: No module named 'no_such_module'",
            "DAG file etl.py is no longer broken",
        ]


@pytest.mark.full
def test_every_failed_run_is_reported_although_schedulers_are_killed(
    tmp_path: Path, postgres: Server, receiver: Receiver
) -> None:
    runs = {f"r{number}" for number in range(12)}
    with new_project(tmp_path, HOLDFAST__DATABASE__URL=postgres.new_database()) as project:
        project.write("dags/etl.py", FAILING.replace("schedule=None", "max_active_runs=4"))
        project.holdfast("db", "migrate")
        with project.service("scheduler", "dags", **to(receiver)) as first:
            wait_until(lambda: "ready: 1 DAG" in project.read("scheduler.err"))
            for run_id in sorted(runs):
                project.holdfast("runs", "trigger", "etl", "--run-id", run_id)
            wait_until(lambda: len(receiver.taken) >= 2)
            first.kill()
        receiver.planned = [500, 503]
        with project.service("scheduler", "dags", **to(receiver)):
            wait_until(lambda: {one["run_id"] for one in receiver.taken} == runs, timeout=400)
        ids = [one["id"] for one in receiver.taken]

    # The one whose delivery the kill interrupted may have come twice, with the same id.
    assert len(ids) - len(set(ids)) <= 1
    assert len(set(ids)) == len(runs)


def test_a_test_alert_is_sent_or_says_why_not(project: Project, receiver: Receiver) -> None:
    callback = {"HOLDFAST__ALERTS__CALLBACK": "notify.page"}
    project.write("notify.py", "def page(alert): open('paged', 'w').write(alert['kind'])")

    sent = project.holdfast("alerts", "test", **to(receiver), **callback)
    receiver.planned = [404]
    refused = project.holdfast("alerts", "test", **to(receiver))
    nowhere = project.holdfast("alerts", "test")

    assert sent.status == 0, sent.err
    assert ([one["kind"] for one in receiver.taken], project.read("paged")) == (["test"], "test")
    assert refused.status == 1
    assert "it responded 404 Not Found" in refused.err
    assert (nowhere.status, "set [alerts] webhook_url" in nowhere.err) == (1, True)
