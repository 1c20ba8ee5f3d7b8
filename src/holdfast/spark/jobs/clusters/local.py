"""`spark-submit` on this machine, in a process that outlives its submitter."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.errors import InvalidInput, SparkUnavailable
from holdfast.model.run import Process
from holdfast.portable.identifier import is_uuid
from holdfast.process import has_ended, this_process
from holdfast.spark.jobs import detached
from holdfast.spark.jobs.clusters import Cluster, State, Status
from holdfast.spark.jobs.submission import Submission, spark_environment, submit_command
from holdfast.spark.session.properties import write_properties

START_SECONDS: Final = 30.0
GRACE: Final = 5.0
"""Seconds that a cancelled driver has to end by itself."""
KEPT: Final = 7 * 24 * 3600.0
"""Seconds that the log of a job is kept."""
_TAIL: Final = 64 * 1024


class LocalSubmit(Cluster):
    """Runs drivers on this machine, whatever master their executors have. Each driver has a
    directory named by its intent, which only one process can own; so there are never two of one
    intent."""

    streams = ("log",)

    def __init__(self, master: str, home: Path) -> None:
        self._master = master
        self._jobs = home.absolute() / "spark" / "jobs"

    def driver_id(self, intent: str) -> str:
        return intent

    def _directory(self, driver: str) -> Path:
        """Return the directory of a driver. Raise InvalidInput if the id, which comes from the task
        store, could lead out of the directory of jobs."""
        if not is_uuid(driver):
            raise InvalidInput(
                f"{driver[:60]!r} is not the id of a driver on this machine",
                hint="delete the job's entries from the task store, and clear the task",
            )
        return self._jobs / driver

    def submit(self, submission: Submission) -> str:
        self._clear_up()
        directory = self._directory(submission.intent)
        directory.mkdir(parents=True, exist_ok=True)
        settings = directory / "spark.properties"
        write_properties(settings, submission.settings())
        command = submit_command(submission, self._master, "client", settings)
        subprocess.run(
            [sys.executable, "-m", detached.__name__, str(directory), *command],
            env=spark_environment(submission.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        deadline = time.monotonic() + START_SECONDS
        while detached.owner(directory) is None:
            if time.monotonic() > deadline:
                raise SparkUnavailable(
                    f"the process that runs spark-submit did not start in {directory}",
                    hint="check whether this machine is out of memory or processes",
                )
            time.sleep(0.02)
        return submission.intent

    def find(self, intent: str) -> str | None:
        return intent if detached.owner(self._directory(intent)) is not None else None

    def status(self, driver: str) -> Status:
        directory = self._directory(driver)
        owner = detached.owner(directory)
        if owner is None:
            return Status(State.UNKNOWN, f"{directory} does not exist")
        runs = _runs_here(owner)  # before reading its exit status
        status = detached.exit_status(directory)
        if status is None:
            why = f"{owner} is gone and has left no exit status"
            return Status(State.RUNNING) if runs else Status(State.UNKNOWN, why)
        if status == 0:
            return Status(State.SUCCEEDED)
        if (directory / "cancelled").exists():
            return Status(State.CANCELLED)
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        return Status(State.FAILED, f"spark-submit ended with {how}")

    def cancel(self, driver: str) -> None:
        directory = self._directory(driver)
        owner = detached.owner(directory)
        if owner is None or detached.exit_status(directory) is not None or not _runs_here(owner):
            return
        (directory / "cancelled").touch()
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(owner.pid, number)
            deadline = time.monotonic() + GRACE
            while time.monotonic() < deadline:
                if detached.exit_status(directory) is not None or not _runs_here(owner):
                    return
                time.sleep(0.05)

    def where_logs_are(self, driver: str) -> str:
        return str(self._directory(driver) / "log")

    def read(self, driver: str, stream: str, offset: int | None) -> tuple[bytes, int]:
        try:
            with open(self._directory(driver) / stream, "rb") as log:
                end = log.seek(0, os.SEEK_END)
                begin = log.seek(max(0, end - _TAIL) if offset is None else offset)
                text = log.read(_TAIL)
        except FileNotFoundError:
            return b"", offset or 0
        return text, begin + len(text)

    def _clear_up(self) -> None:
        """Remove the directories of jobs that ended long ago."""
        for status in self._jobs.glob("*/status"):
            with suppress(OSError):  # another process removes it at the same time
                if status.stat().st_mtime < time.time() - KEPT:
                    shutil.rmtree(status.parent)


def _runs_here(owner: Process) -> bool:
    """Return whether the owner, or a process that it started, still runs on this machine. It does
    not if it ran on another machine, or before this machine was restarted."""
    if owner.host != this_process().host:
        return False
    return not has_ended(owner) or _group_has_survivors(owner)


def _group_has_survivors(owner: Process) -> bool:
    """Return whether processes of its group have survived the owner. While they run, no other
    process can get its pid."""
    try:
        os.killpg(owner.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return not Path("/proc", str(owner.pid)).exists()
