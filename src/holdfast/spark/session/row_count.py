"""Rows read and written by a Spark session, from the REST API of Spark's UI."""

from __future__ import annotations

import json
import time
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

TIMEOUT: Final = 5.0
"""Seconds to wait for a response. Spark needs a few for its first one, to load its API."""
_FINAL: Final = frozenset({"COMPLETE", "FAILED", "SKIPPED"})
_PAUSE: Final = 0.05


class RowCount:
    """Counts the rows of all jobs of one session, including streaming queries.

    Completed stages are cached: Spark forgets old ones, and they need not be requested again.
    """

    def __init__(self, ui: str, session_id: str) -> None:
        self._address = urlsplit(ui).netloc
        self._tag = f"_Session_{session_id}_"
        self._application = ""
        self._ended: dict[int, tuple[int, int]] = {}

    def count(self, *, final: bool = False) -> dict[str, int]:
        """Return the rows so far, or an empty dict if Spark does not report them.

        Spark's UI lags behind its work: `final` waits until all jobs have ended there, and returns
        an empty dict if that takes too long.
        """
        deadline = time.monotonic() + TIMEOUT
        try:
            while True:
                counts, ended = self._look()
                if ended or not final:
                    return counts
                if time.monotonic() > deadline:
                    return {}
                time.sleep(_PAUSE)
        except (OSError, HTTPException, ValueError, LookupError):
            return {}

    def _look(self) -> tuple[dict[str, int], bool]:
        """Return the rows, and whether they are final."""
        connection = HTTPConnection(self._address, timeout=TIMEOUT)
        try:
            if not self._application:
                self._application = _get(connection, "")[0]["id"]
            jobs = _get(connection, f"/{self._application}/jobs")
            ours = [job for job in jobs if any(self._tag in tag for tag in job["jobTags"])]
            running: list[tuple[int, int]] = []
            for number in sorted({number for job in ours for number in job["stageIds"]}):
                if number not in self._ended:
                    path = f"/{self._application}/stages/{number}?details=false"
                    tries = _get(connection, path)
                    rows = (
                        sum(one["inputRecords"] for one in tries),
                        sum(one["outputRecords"] for one in tries),
                    )
                    if all(one["status"] in _FINAL for one in tries):
                        self._ended[number] = rows
                    else:
                        running.append(rows)
        finally:
            connection.close()
        rows_of_stages = [*self._ended.values(), *running]
        counts = {
            "rows_read": sum(read for read, _ in rows_of_stages),
            "rows_written": sum(written for _, written in rows_of_stages),
        }
        return counts, not any(job["status"] == "RUNNING" for job in ours)


def _get(connection: HTTPConnection, path: str) -> Any:
    connection.request("GET", f"/api/v1/applications{path}")
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise ValueError(f"Spark responded with status {response.status}")
    return json.loads(body)
