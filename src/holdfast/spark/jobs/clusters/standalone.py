"""Drivers on a standalone cluster, through the REST server of its master."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from holdfast.errors import InvalidInput, SparkUnavailable
from holdfast.spark.jobs.clusters import Cluster, State, Status
from holdfast.spark.jobs.clusters.rest import Refused, ask, checked_url, decoded
from holdfast.spark.jobs.submission import INTENT, Submission

REST_PORT: Final = 6066
PAGE_PORT: Final = 8080
PYTHON_RUNNER: Final = "org.apache.spark.deploy.PythonRunner"
_OWN_COPY: Final = "{{USER_JAR}}"
"""Replaced by the worker with the path of its copy of the application."""
_AT_ONCE: Final = 64 * 1024
_HEAD: Final = re.compile(rb"==== Bytes (\d+)-(\d+) of (\d+) of [^\n]* ====\n")
_DRIVER: Final = re.compile(r"driver-\d{14}-\d{4,}", re.ASCII)
_COMMAND: Final = b"Launch Command: "
_STATES: Final = {
    "SUBMITTED": State.WAITING,
    "RELAUNCHING": State.WAITING,
    "RUNNING": State.RUNNING,
    "FINISHED": State.SUCCEEDED,
    "FAILED": State.FAILED,
    "KILLED": State.CANCELLED,
    # It could not be started; or it ended while the master was down, and its result is not known.
    "ERROR": State.UNKNOWN,
    # The master is recovering, and the driver has not reported to it yet.
    "UNKNOWN": State.WAITING,
}


class StandaloneCluster(Cluster):
    """Applications are submitted to `rest_url`; `page_url` is the master's web page."""

    streams = ("stdout", "stderr")

    def __init__(self, master: str, rest_url: str | None, page_url: str | None) -> None:
        self._master = master
        host = urlsplit(master.partition(",")[0]).hostname
        if not host:
            raise InvalidInput(f"master is {master!r}", hint="write spark://host:port")
        self._rest = checked_url("rest_url", rest_url or f"http://{host}:{REST_PORT}")
        self._page = checked_url("page_url", page_url or f"http://{host}:{PAGE_PORT}")

    def submit(self, submission: Submission) -> str:
        # Overrides the worker's own settings; without it the driver may look for a local Spark.
        settings = submission.settings() | {
            "spark.master": self._master,
            "spark.submit.deployMode": "cluster",
        }
        args, main_class = list(submission.args), submission.main_class
        if submission.is_python:
            # Files that are named here are on the driver's path before it starts Spark.
            local = [path for path in submission.py_files if not urlsplit(path).scheme]
            args = [_OWN_COPY, ",".join(local), *args]
            main_class = PYTHON_RUNNER
        answer = self._ask(
            "create",
            {
                "action": "CreateSubmissionRequest",
                "clientSparkVersion": _version(),
                "appResource": _url(submission.application),
                "mainClass": main_class,
                "appArgs": args,
                "environmentVariables": dict(submission.environment),
                "sparkProperties": settings,
            },
        )
        if not answer.get("success") or "submissionId" not in answer:
            raise self._refusal(answer)
        return str(answer["submissionId"])

    def find(self, intent: str) -> str | None:
        """Return the driver of the intent by its command, with which its log begins. A driver that
        waits for a worker has no log yet."""
        wanted = _mark(intent)
        return next((one for one in self._drivers() if wanted in self._command(one)), None)

    def is_driver_of(self, driver: str, intent: str) -> bool:
        """Return whether the driver's command has the intent, or is not known: the driver has not
        started, or the page of the master or of the worker does not respond."""
        if not _DRIVER.fullmatch(driver):
            return False
        command = self._command(driver)
        return not command.startswith(_COMMAND) or _mark(intent) in command

    def _command(self, driver: str) -> bytes:
        """Return the beginning of a driver's log: the command by which it was started."""
        try:
            log, _ = self.read(driver, "stderr", 0)
        except (InvalidInput, SparkUnavailable):
            return b""  # its worker is gone, or has removed the log
        return log

    def status(self, driver: str) -> Status:
        answer = self._ask(f"status/{quote(driver, safe='')}")
        detail = _said(answer)
        if answer.get("success"):
            return Status(_STATES.get(str(answer.get("driverState")), State.WAITING), detail)
        # A master that has just started reports that it is not ready, not that there is no such
        # driver.
        return Status(State.WAITING if detail else State.UNKNOWN, detail)

    def cancel(self, driver: str) -> None:
        self._ask(f"kill/{quote(driver, safe='')}", {})

    def where_logs_are(self, driver: str) -> str:
        return f"the page of driver {driver} at {self._page}"

    def read(self, driver: str, stream: str, offset: int | None) -> tuple[bytes, int]:
        page = self._worker_page(driver)
        if page is None:
            return b"", offset or 0
        query = f"driverId={quote(driver, safe='')}&logType={stream}&byteLength={_AT_ONCE}"
        if offset is not None:
            query += f"&offset={offset}"
        answer = ask(f"{page}/log/?{query}")
        head = _HEAD.match(answer)
        if head is None:
            return b"", offset or 0
        begin, end = int(head[1]), int(head[2])
        if offset is not None and begin != offset:
            return b"", offset  # past the end, the worker sends the end of the log instead
        return answer[head.end() : head.end() + end - begin], end

    def _worker_page(self, driver: str) -> str | None:
        state = self._state()
        known = [*state.get("activedrivers", ()), *state.get("completeddrivers", ())]
        worker = next((one.get("worker") for one in known if one.get("id") == driver), None)
        pages = {one["id"]: str(one["webuiaddress"]) for one in state.get("workers", ())}
        return pages.get(worker)

    def _drivers(self) -> Iterator[str]:
        try:
            state = self._state()
        except (InvalidInput, SparkUnavailable):
            return  # the page may be disabled; a claim identifies the driver as well
        for one in (*state.get("activedrivers", ()), *state.get("completeddrivers", ())):
            yield str(one["id"])

    def _state(self) -> dict[str, Any]:
        url = f"{self._page}/json/"
        return decoded(url, ask(url))

    def _ask(self, action: str, body: Any = None) -> dict[str, Any]:
        url = f"{self._rest}/v1/submissions/{action}"
        try:
            return decoded(url, ask(url, body))
        except Refused as error:
            raise self._refusal(_decoded(error.body)) from None
        except SparkUnavailable as error:
            raise SparkUnavailable(
                error.message,
                hint="set spark.master.rest.enabled to true on the master; if its REST server is "
                "not on the default port, give its URL as rest_url=",
            ) from error

    def _refusal(self, answer: dict[str, Any]) -> InvalidInput:
        return InvalidInput(
            f"the master at {self._rest} refused the request: {_said(answer) or answer}",
            hint="check the numbers and sizes in conf=, and that the URL is that of a master's "
            "REST server",
        )


def _mark(intent: str) -> bytes:
    return f'"-D{INTENT}={intent}"'.encode()


def _said(answer: dict[str, Any]) -> str:
    """Return the message of a response, without the stack trace."""
    lines = str(answer.get("message", "")).splitlines()
    return " ".join(line for line in lines if not line.startswith("\t"))


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        return {"message": body[:200].decode(errors="replace")}


def _url(path: str) -> str:
    return path if urlsplit(path).scheme else f"file:{path}"


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pyspark")
    except PackageNotFoundError:
        return "4.0.0"
