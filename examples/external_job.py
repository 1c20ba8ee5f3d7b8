"""Submit a job to a cluster once, however often the task that waits for it dies.

    holdfast run external_job.py --run-id today

Kill it (`kill -9`) while it waits, and start it again with the same `--run-id`: both tasks continue
to wait for the jobs of their first attempts. They show two ways:

- `aggregate` is an operator with `ResumableJobMixin`, for reusable operators. The mixin stores an
  intent before the job is submitted and the job's id after. Note `find_job`: the job carries the
  intent as its name, so even a crash between submitting the job and storing its id creates no
  second job.
- `export` does the same by hand in a few lines, with a name that is the same for every attempt.
"""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from holdfast.sdk import DAG, BaseOperator, ResumableJobMixin, task


class Cluster:
    """A fake cluster: a file for each job, with the time at which it will be done."""

    jobs = Path("cluster")

    def submit(self, name: str) -> str:
        self.jobs.mkdir(exist_ok=True)
        job_id = f"app_{uuid4().hex[:8]}"
        job = {"name": name, "done_at": time.time() + 1}
        (self.jobs / job_id).write_text(json.dumps(job))
        return job_id

    def find(self, name: str) -> str | None:
        jobs = {json.loads(file.read_text())["name"]: file.name for file in self.jobs.glob("*")}
        return jobs.get(name)

    def status(self, job_id: str) -> str:
        job = json.loads((self.jobs / job_id).read_text())
        return "FINISHED" if job["done_at"] < time.time() else "RUNNING"

    def wait(self, job_id: str) -> None:
        while self.status(job_id) == "RUNNING":
            time.sleep(0.1)


cluster = Cluster()


class ClusterJob(ResumableJobMixin, BaseOperator):
    """Run a job on the cluster; the result is the job's id."""

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> str:
        return cluster.submit(name=context["job_intent"])

    def find_job(self, intent: str, context: Any) -> str | None:
        return cluster.find(name=intent)

    def get_job_status(self, external_id: str, context: Any) -> str:
        return cluster.status(external_id)

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "FINISHED"

    def poll_until_complete(self, external_id: str, context: Any) -> None:
        cluster.wait(external_id)

    def get_job_result(self, external_id: str, context: Any) -> str:
        return external_id


with DAG("external_job", default_args={"retries": 2, "retry_delay": timedelta(seconds=1)}):
    ClusterJob(task_id="aggregate")

    @task
    def export(task_store: Any, run_id: str) -> str:
        name = f"export-{run_id}"
        job_id = task_store.get("job_id") or cluster.find(name) or cluster.submit(name)
        task_store.set("job_id", job_id)
        cluster.wait(job_id)
        return str(job_id)

    export()
