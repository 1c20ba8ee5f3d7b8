"""YARN: submitted by `spark-submit`, then asked about over the ResourceManager's REST API.

Written from its documentation; not tried on a real one.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote

from holdfast.errors import InvalidInput, SparkUnavailable
from holdfast.spark.jobs.clusters import Cluster, State, Status
from holdfast.spark.jobs.clusters.client import spark_submit
from holdfast.spark.jobs.clusters.rest import Refused, ask, checked_url, decoded
from holdfast.spark.jobs.submission import Submission

_APPLICATION: Final = re.compile(r"application_\d+_\d+", re.ASCII)
_FINAL: Final = {
    "SUCCEEDED": State.SUCCEEDED,
    "FAILED": State.FAILED,
    "KILLED": State.CANCELLED,
}


class YarnCluster(Cluster):
    """`rest_url` is the ResourceManager's, such as http://host:8088."""

    def __init__(self, rest_url: str | None) -> None:
        if rest_url is None:
            raise InvalidInput(
                "YARN is asked about jobs over REST, and rest_url is not given",
                hint='rest_url="http://resourcemanager:8088"',
            )
        self._apps = f"{checked_url('rest_url', rest_url)}/ws/v1/cluster/apps"

    def submit(self, submission: Submission) -> str:
        settings = submission.settings() | {
            "spark.yarn.submit.waitAppCompletion": "false",
            "spark.yarn.tags": _tag(submission.intent),
            **{f"spark.yarn.appMasterEnv.{k}": v for k, v in submission.environment.items()},
        }
        spark_submit(submission, "yarn", settings)
        found = self.find(submission.intent)
        if found is None:
            raise SparkUnavailable(
                f"spark-submit has ended, and YARN knows no application with the tag "
                f"{_tag(submission.intent)}",
                hint="check that rest_url is the ResourceManager's of this cluster",
            )
        return found

    def find(self, intent: str) -> str | None:
        url = f"{self._apps}?applicationTags={_tag(intent)}"
        apps = (decoded(url, ask(url)).get("apps") or {}).get("app") or []
        return str(apps[0]["id"]) if apps else None

    def is_driver_of(self, driver: str, intent: str) -> bool:
        """By its tags. An application that YARN has forgotten has none."""
        if not _APPLICATION.fullmatch(driver):
            return False
        try:
            tags = str(self._app(driver).get("applicationTags", ""))
        except (Refused, SparkUnavailable):
            return True
        return _tag(intent) in tags.split(",")

    def status(self, driver: str) -> Status:
        try:
            app = self._app(driver)
        except Refused:
            return Status(State.UNKNOWN)
        detail = str(app.get("diagnostics", "")).strip()
        if app.get("state") in ("FINISHED", "FAILED", "KILLED"):
            return Status(_FINAL.get(str(app.get("finalStatus")), State.FAILED), detail)
        return Status(State.RUNNING if app.get("state") == "RUNNING" else State.WAITING, detail)

    def cancel(self, driver: str) -> None:
        ask(f"{self._apps}/{quote(driver, safe='')}/state", {"state": "KILLED"}, method="PUT")

    def where_logs_are(self, driver: str) -> str:
        return f"`yarn logs -applicationId {driver}`"

    def _app(self, driver: str) -> dict[str, Any]:
        url = f"{self._apps}/{quote(driver, safe='')}"
        app: dict[str, Any] = decoded(url, ask(url)).get("app") or {}
        return app


def _tag(intent: str) -> str:
    return f"holdfast-{intent}"
