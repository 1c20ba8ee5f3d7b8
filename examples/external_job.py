"""Submit a job once, however often the script is started.

Look at how the job's id is stored before the waiting begins. Start the script, kill it while it
waits, start it again: it finds the id of the first start and goes on waiting for that job.

If the process dies between the submit and the `set`, nobody knows the id. So the job also carries a
name made from the run, by which a cluster that knows names can be asked first.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import holdfast

RUN = "2026-01-31"


class Cluster:
    """Stands in for the cluster: a file for each job, with the time at which it will be done."""

    jobs = Path("cluster")

    def submit(self, name: str) -> str:
        self.jobs.mkdir(exist_ok=True)
        job_id = f"app_{len(list(self.jobs.iterdir())) + 1}"
        job = {"name": name, "done_at": time.time() + 1}
        (self.jobs / job_id).write_text(json.dumps(job))
        return job_id

    def find(self, name: str) -> str | None:
        jobs = {json.loads(file.read_text())["name"]: file.name for file in self.jobs.glob("*")}
        return jobs.get(name)

    def is_done(self, job_id: str) -> bool:
        return bool(json.loads((self.jobs / job_id).read_text())["done_at"] < time.time())


def main() -> None:
    cluster = Cluster()
    name = f"sales-{RUN}"
    with (
        holdfast.connect() as connection,
        connection.task_store("sales", RUN, "aggregate").attempt() as attempt,
    ):
        store = attempt.task_store
        job_id = store.get("job_id") or cluster.find(name)
        if job_id:
            print(f"found {job_id}", flush=True)
        else:
            job_id = cluster.submit(name)
            print(f"submitted {job_id}", flush=True)
        store.set("job_id", job_id)
        while not cluster.is_done(job_id):
            time.sleep(0.1)
        print(f"{job_id} is done, seen by attempt {attempt.number}")


if __name__ == "__main__":
    main()
