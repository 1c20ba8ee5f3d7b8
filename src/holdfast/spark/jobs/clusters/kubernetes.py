"""Kubernetes: everything goes through `spark-submit`.

Written from its documentation; not tried on a real one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from holdfast.errors import SparkUnavailable
from holdfast.spark.jobs.clusters import Cluster, State, Status
from holdfast.spark.jobs.clusters.client import run, spark_submit
from holdfast.spark.jobs.submission import Submission

_PHASES: Final = {
    "Pending": State.WAITING,
    "Running": State.RUNNING,
    "Succeeded": State.SUCCEEDED,
    "Failed": State.FAILED,
}


class KubernetesCluster(Cluster):
    """A driver's pod is named by the intent, and there are no two pods of one name."""

    def __init__(self, master: str, conf: Mapping[str, str]) -> None:
        self._master = master
        self._namespace = conf.get("spark.kubernetes.namespace", "default")

    def driver_id(self, intent: str) -> str:
        return f"{self._namespace}:{_pod(intent)}"

    def submit(self, submission: Submission) -> str:
        settings = submission.settings() | {
            "spark.kubernetes.submission.waitAppCompletion": "false",
            "spark.kubernetes.driver.pod.name": _pod(submission.intent),
            **{f"spark.kubernetes.driverEnv.{k}": v for k, v in submission.environment.items()},
        }
        try:
            spark_submit(submission, self._master, settings)
        except SparkUnavailable:
            if self.find(submission.intent) is None:
                raise
        return self.driver_id(submission.intent)

    def find(self, intent: str) -> str | None:
        driver = self.driver_id(intent)
        return None if self.status(driver).state is State.UNKNOWN else driver

    def status(self, driver: str) -> Status:
        said = run("--master", self._master, "--status", driver).output
        phase = re.search(r"phase: *(\w+)", said)
        if phase is None:
            last = said.strip().rpartition("\n")[2]
            if "No applications found" not in said:
                raise SparkUnavailable(
                    f"{self._master} does not tell of {driver}: {last}",
                    hint="check that this machine is a client of the cluster",
                )
            return Status(State.UNKNOWN, last)
        return Status(_PHASES.get(phase[1], State.UNKNOWN), f"phase {phase[1]}")

    def cancel(self, driver: str) -> None:
        run("--master", self._master, "--kill", driver)

    def where_logs_are(self, driver: str) -> str:
        namespace, _, pod = driver.partition(":")
        return f"`kubectl logs -n {namespace} {pod}`"


def _pod(intent: str) -> str:
    return f"holdfast-{intent}"
