"""Resumable external jobs: submitted once, whenever the task that watches them dies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from task_runs import RUN_ID, Pipeline

from holdfast import commands as c
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import TaskScope
from holdfast.runner.protocol.messages import Failed

Make = Callable[[str], Pipeline]

DAG_FILE = """
import json
from pathlib import Path
from holdfast.sdk import *

CLUSTER = Path({cluster!r})

def jobs():
    return json.loads(CLUSTER.read_text()) if CLUSTER.exists() else {{}}

def save(found):
    CLUSTER.write_text(json.dumps(found))

def crash_at(point):
    if (CLUSTER.parent / f"crash_{{point}}").exists():
        (CLUSTER.parent / f"crash_{{point}}").unlink()
        raise RuntimeError(f"crash {{point}}")

class Job(ResumableJobMixin, BaseOperator):
    def execute(self, context):
        return self.execute_resumable(context)

    def submit_job(self, context):
        crash_at("before_submit")
        found = jobs()
        name = f"job-{{len(found)}}"
        save(found | {{name: {{"intent": context["job_intent"], "status": "RUNNING"}}}})
        crash_at("after_submit")
        return name

    def get_job_status(self, external_id, context):
        return jobs()[external_id]["status"]

    def is_job_active(self, status):
        return status == "RUNNING"

    def is_job_succeeded(self, status):
        return status == "SUCCEEDED"

    def poll_until_complete(self, external_id, context):
        crash_at("while_polling")
        found = jobs()
        if found[external_id]["status"] == "FAILED":
            raise RuntimeError("the job failed")
        found[external_id]["status"] = "SUCCEEDED"
        save(found)
        crash_at("after_polling")

    def get_job_result(self, external_id, context):
        return external_id

class FindableJob(Job):
    external_id_key = "run_id"

    def find_job(self, intent, context):
        return next((name for name, job in jobs().items() if job["intent"] == intent), None)

with DAG("d"):
    Job(task_id="job")
    Job(task_id="fleeting", durable=False)
    FindableJob(task_id="findable")
"""


class Cluster:
    """External system, with its jobs in a file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "cluster.json"

    @property
    def jobs(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = json.loads(self.file.read_text())
        return found

    def end(self, name: str, status: str) -> None:
        jobs = self.jobs
        jobs[name]["status"] = status
        self.file.write_text(json.dumps(jobs))

    def crash_at(self, point: str) -> None:
        (self.file.parent / f"crash_{point}").touch()


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.fixture
def jobs(pipeline: Make, cluster: Cluster) -> Pipeline:
    return pipeline(DAG_FILE.format(cluster=str(cluster.file)))


def test_a_job_is_submitted_watched_and_its_result_returned(
    jobs: Pipeline, cluster: Cluster
) -> None:
    assert jobs.result("job") == "job-0"

    assert jobs.task_value("job", "remote_job_id") == "job-0"
    assert UUID(cluster.jobs["job-0"]["intent"])


def test_a_retry_reconnects_to_a_job_that_runs(jobs: Pipeline, cluster: Cluster) -> None:
    cluster.crash_at("while_polling")
    first = jobs.run("job")

    assert isinstance(first, Failed)
    assert jobs.result("job") == "job-0"
    assert list(cluster.jobs) == ["job-0"]


def test_a_retry_returns_the_result_of_a_job_that_has_succeeded(
    jobs: Pipeline, cluster: Cluster
) -> None:
    cluster.crash_at("after_polling")
    jobs.run("job")
    cluster.crash_at("while_polling")

    assert jobs.result("job") == "job-0"


def test_a_job_that_failed_is_submitted_again_with_a_new_intent(
    jobs: Pipeline, cluster: Cluster
) -> None:
    cluster.crash_at("while_polling")
    jobs.run("job")
    cluster.end("job-0", "FAILED")

    assert jobs.result("job") == "job-1"
    assert len({job["intent"] for job in cluster.jobs.values()}) == 2


def test_a_job_whose_id_was_not_stored_is_found_by_its_intent(
    jobs: Pipeline, cluster: Cluster
) -> None:
    cluster.crash_at("after_submit")
    jobs.run("findable")

    assert jobs.result("findable") == "job-0"
    assert list(cluster.jobs) == ["job-0"]
    assert jobs.task_value("findable", "run_id") == "job-0"


def test_an_intent_whose_job_was_never_submitted_is_used(jobs: Pipeline, cluster: Cluster) -> None:
    cluster.crash_at("before_submit")
    jobs.run("findable")
    intent = jobs.task_value("findable", "run_id.intent")

    assert jobs.result("findable") == "job-0"
    assert cluster.jobs["job-0"]["intent"] == intent


def test_an_intent_that_is_no_uuid_is_refused(jobs: Pipeline, cluster: Cluster) -> None:
    cluster.crash_at("after_submit")
    jobs.run("findable")
    scope = TaskScope("d", RUN_ID, "findable")
    jobs.store.execute(c.Set(scope, "run_id.intent", '"../../escaped"', ApiWriter("ann")))

    refused = jobs.run("findable")

    assert isinstance(refused, Failed)
    assert (
        "`run_id.intent` of the task store is '../../escaped', which is not a UUID" in refused.error
    )


def test_a_second_job_after_a_failed_one_is_found_by_its_own_intent(
    jobs: Pipeline, cluster: Cluster
) -> None:
    cluster.crash_at("while_polling")
    jobs.run("findable")
    cluster.end("job-0", "FAILED")
    cluster.crash_at("after_submit")
    jobs.run("findable")

    assert jobs.result("findable") == "job-1"
    assert list(cluster.jobs) == ["job-0", "job-1"]


def test_without_a_way_to_find_the_job_the_risk_is_logged(
    jobs: Pipeline, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.crash_at("after_submit")
    jobs.run("job")
    caplog.clear()

    assert jobs.result("job") == "job-1"
    assert "so two may run. Implement find_job(intent, context) in Job" in caplog.text
    assert cluster.jobs["job-0"]["intent"] == cluster.jobs["job-1"]["intent"]


def test_a_job_that_is_not_durable_is_submitted_by_each_attempt(
    jobs: Pipeline, cluster: Cluster
) -> None:
    cluster.crash_at("while_polling")
    jobs.run("fleeting")

    assert jobs.result("fleeting") == "job-1"
    assert jobs.task_value("fleeting", "remote_job_id") is None
