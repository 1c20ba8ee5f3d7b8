"""The driver of a job that a SparkJob task submitted: the API for its application."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self
from urllib.parse import parse_qs, urlsplit

import msgspec

from holdfast.accessor.asset_store import AssetStore
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import HoldfastError, InvalidInput, StaleAttempt
from holdfast.model.entry import TaskWriter
from holdfast.model.scope import AssetScope
from holdfast.process import identify
from holdfast.spark.jobs.claim import Claim, Claims
from holdfast.spark.jobs.ticket import Ticket
from holdfast.stores.http import HttpStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_MINE: Final = 75
"""The exit status of a driver that does not have the job. Not 0: it has not done the job."""
HEARTBEAT: Final = 5.0
"""Seconds between heartbeats."""

_mine: list[Driver] = []


def driver() -> Driver:
    """Claim the job that this process was submitted to run. Call it first, before Spark.

    If another driver has the job, or its task has given it up, the process exits at once. Further
    calls return the same object.
    """
    if not _mine:
        _mine.append(Driver(Ticket.found()))
    return _mine[0]


class Driver:
    """Access to the stores of the task that submitted the job, as long as this driver has the job.

    In a `with` statement, it also records how the job ended, in case the cluster cannot report it.
    """

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket
        window = timedelta(seconds=ticket.retry_window)
        self._store = HttpStore(ticket.url, ticket.token, retry_window=window)
        self._values = ticket.rules.offloading.over(self._store)
        self._writer = TaskWriter(ticket.scope)
        self._claims = Claims(self._store, self._writer, ticket.key, ticket.intent)
        self._lock = Lock()
        self._ended = Event()
        self._claim, self._version = self._take()
        Thread(target=self._keep, daemon=True).start()

    def __repr__(self) -> str:
        return f"<Driver {self.id} of {self._ticket.scope}>"

    @property
    def id(self) -> str:
        """The id of this driver in the cluster."""
        return self._claim.driver

    @property
    def intent(self) -> str:
        """The job's identity. It stays the same however often the job is submitted, until it
        failed."""
        return self._ticket.intent

    @property
    def dag_id(self) -> str:
        return self._ticket.scope.dag_id

    @property
    def run_id(self) -> str:
        return self._ticket.scope.run_id

    @property
    def task_id(self) -> str:
        return self._ticket.scope.task_id

    @property
    def map_index(self) -> int:
        return self._ticket.scope.map_index

    @property
    def task_store(self) -> TaskStore:
        """The task store of the task that submitted the job."""
        return TaskStore(self._values, self._ticket.scope, self._writer, self._ticket.rules)

    def asset_store(self, *, name: str | None = None, uri: str | None = None) -> AssetStore:
        """Return the store of an asset among the inlets and outlets of that task."""
        if (name is None) == (uri is None):
            raise InvalidInput(
                "both or neither of name= and uri= are given", hint="give one of them"
            )
        scope = AssetScope(name=name, uri=uri)
        return AssetStore(self._values, scope, self._writer, self._ticket.rules)

    def report(self, spark: SparkSession) -> None:
        """Record which Spark application runs the job, and the URL of its UI."""
        context = spark.sparkContext
        self._record(application=context.applicationId or "", page=context.uiWebUrl or "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        well = error is None or (isinstance(error, SystemExit) and error.code in (None, 0))
        self._ended.set()
        try:
            self._record(succeeded=well)
        except HoldfastError as failure:
            # The work is done all the same, and the cluster knows how the driver ended.
            _tell(f"could not record the end of the job: {failure.message}")

    def _take(self) -> tuple[Claim, int]:
        mine = Claim(
            intent=self.intent,
            driver=self._ticket.driver or own_id(),
            process=identify(os.getpid()),
            claimed_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        try:
            while True:
                other, version = self._claims.read()
                if other is not None:
                    self._yield_to(other, mine)
                taken = self._claims.write(mine, version)
                if taken is not None:
                    return mine, taken
        except StaleAttempt:
            self._leave("its task no longer waits for it")

    def _yield_to(self, other: Claim, mine: Claim) -> None:
        """Exit, unless the cluster has restarted this driver after its process had died."""
        if other.process is None:
            self._leave("its task has abandoned it")
        if other.succeeded:
            self._leave(f"{other} has completed it")
        if other.driver != mine.driver or identify(other.process.pid) == other.process:
            self._leave(f"{other} runs it")

    def _keep(self) -> None:
        """Send heartbeats, which also renew the token, and notice when the job is lost."""
        quiet = False
        while not self._ended.wait(HEARTBEAT):
            try:
                self._record()
                quiet = False
            except HoldfastError as error:
                if not quiet:
                    _tell(f"could not send the heartbeat of the job: {error.message}")
                quiet = True

    def _record(self, **facts: Any) -> None:
        with self._lock:
            if self._ended.is_set() and not facts:
                return
            self._claim = msgspec.structs.replace(self._claim, **facts)
            try:
                version = self._claims.write(self._claim, self._version) or self._write_again()
            except StaleAttempt:
                version = None
            if version is None:
                _tell(self._refusal("its task has abandoned it"))
                os._exit(NOT_MINE)  # also ends the process from a thread: the work must not go on
            self._version = version

    def _write_again(self) -> int | None:
        """Write the claim again if its version is this driver's own: the response to its last write
        was lost. Return None if another process has the claim."""
        standing, version = self._claims.read()
        if standing is None or standing.process != self._claim.process:
            return None
        return self._claims.write(self._claim, version)

    def _leave(self, why: str) -> NoReturn:
        _tell(self._refusal(why))
        sys.exit(NOT_MINE)

    def _refusal(self, why: str) -> str:
        return f"this driver stops, because the job {self.intent} does not belong to it: {why}"


def own_id() -> str:
    """Return the id that a standalone cluster has given to this process."""
    # The cluster also names directories and logs by it; there is no more direct source.
    page = os.environ.get("SPARK_DRIVER_LOG_URL_STDERR", "")
    if named := parse_qs(urlsplit(page).query).get("driverId"):
        return named[0]
    return Path.cwd().name


def _tell(message: str) -> None:
    print(f"holdfast: {message}", file=sys.stderr, flush=True)
