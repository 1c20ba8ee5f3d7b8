"""Pipeline that submits an application in each of several tasks, each killed at another step."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil

from holdfast.sdk import DAG
from holdfast.spark.jobs.job import SparkJob

HERE = Path(__file__).parent


class KilledJob(SparkJob):
    """Job that kills its process, or its supervisor too, at one step, the first time."""

    def __init__(self, *, step, victim="task", **arguments):
        super().__init__(**arguments)
        self.step = step
        self.victim = victim

    def submit_job(self, context):
        self.reach("intent")
        driver = super().submit_job(context)
        self.reach("submitted")
        return driver

    def poll_until_complete(self, external_id, context):
        self.reach("stored")
        super().poll_until_complete(external_id, context)
        self.reach("done")

    def get_job_status(self, external_id, context):
        self.reach("reconnecting")
        return super().get_job_status(external_id, context)

    def reach(self, step):
        killed = HERE / f"{self.task_id}.{step}"
        if step in self.step.split("+") and not killed.exists():
            killed.touch()
            if self.victim == "supervisor":
                launcher = psutil.Process().parent()
                launcher.parent().kill()
            os.kill(os.getpid(), signal.SIGKILL)


with DAG("submitting", max_active_tasks=16):
    for number, line in enumerate((HERE / "kills.txt").read_text().splitlines()):
        step, victim, page = line.split()
        KilledJob(
            task_id=f"job-{number}",
            step=step,
            victim=victim,
            application=str(HERE / "submitted.py"),
            args=[HERE / f"job-{number}.work", "spark" if number == 0 else ""],
            conf={
                "spark.driver.memory": "512m",
                "spark.executor.memory": "512m",
                "spark.cores.max": 1,
            },
            master=os.environ["CHAOS_MASTER"],
            rest_url=os.environ["CHAOS_REST"],
            page_url=page,
            deploy_mode="cluster",
            poll_interval=1,
            retries=5,
            retry_delay=0,
        )
