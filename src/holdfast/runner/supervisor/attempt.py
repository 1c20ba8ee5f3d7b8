"""Supervision of one attempt, from the start of its process to its recorded end."""

from __future__ import annotations

import logging
import signal
import time
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import msgspec

from holdfast import commands as c
from holdfast.access.identity import CallbackIdentity, ChildIdentity
from holdfast.accessor.binding import Rules
from holdfast.actions.logs import callbacks_log, log_path
from holdfast.errors import HoldfastError, NoFreeSlot, StaleAttempt, StoreUnavailable, ValueTooLarge
from holdfast.model.dag import CallbackKind
from holdfast.model.entry import TaskWriter
from holdfast.model.run import Ending, Outcome
from holdfast.monitoring import tracing
from holdfast.monitoring.tracing import Span
from holdfast.runner.protocol.messages import (
    STARTUP,
    CallbackStartup,
    Failed,
    Report,
    TaskStartup,
)
from holdfast.runner.protocol.orders import AttemptEnd, Ended, RunTask
from holdfast.runner.protocol.parameters import CALLBACKS, LEASE, MOST_INTERRUPTIONS
from holdfast.runner.supervisor.declared_assets import Declared, own_report
from holdfast.runner.supervisor.ending import StopReason, ending_of
from holdfast.runner.supervisor.endpoint import open_endpoint
from holdfast.runner.supervisor.launcher_link import Child, LauncherGone, LauncherLink
from holdfast.runner.supervisor.log_uploads import LogUploads
from holdfast.runner.supervisor.relay import relay, run_child
from holdfast.runner.supervisor.spark_server import SparkServer
from holdfast.server.endpoint import Endpoints
from holdfast.store import Store
from holdfast.wire.channel import encode

GRACE = 10.0
"""Seconds that a task has to end after SIGTERM before it is killed."""
EXIT_TIMEOUT = 5.0
"""Seconds that a task's process has to end after its report, or after closing its channel."""
CALLBACK_LIMIT = 60.0
"""Timeout of callbacks in seconds."""
STOP_DELAY = 1.0
"""Seconds in which a supervisor gets SIGTERM itself if its tasks get it from somebody else."""
PAUSE = 0.1
"""Seconds before callbacks are retried with another launcher."""

log = logging.getLogger("holdfast.supervisor")


class Resources(NamedTuple):
    """The resources of a supervisor that its attempts and watchers use."""

    store: Store
    launcher: LauncherLink
    rules: Rules
    home: Path
    spark: SparkServer
    endpoints: Endpoints
    log_uploads: LogUploads | None = None
    """None if logs stay on this machine."""


class Attempt:
    """One attempt of a task instance. `run` has its own thread; others call `tick` and `stop`."""

    def __init__(self, order: RunTask, resources: Resources) -> None:
        self._order = order
        self._resources = resources
        self._child: Child | None = None
        self._stop: StopReason | None = None
        self._was_stopped = Event()
        self._timeout_at: float | None = None
        self._kill_at: float | None = None
        self._declared = Declared((), {})
        self._started = 0.0
        self._span = Span()
        self.writer: TaskWriter | None = None
        """Set while the attempt is live."""

    def _ended(self, error: str = "", **more: Any) -> Ended:
        return Ended(self._order.number, self._order.instance.scope, error, **more)

    def run(self) -> Ended:
        scope = self._order.instance.scope
        try:
            child = self._resources.launcher.launch()
        except LauncherGone as error:
            return self._ended(error.message, begun=False)
        what = {"dag_id": scope.dag_id, "run_id": scope.run_id, "task_id": scope.task_id}
        name, parent = f"attempt {scope.dag_id}.{scope.task_id}", self._order.traceparent
        with child, tracing.span(name, parent, **what, map_index=scope.map_index) as span:
            self._child = child
            self._span = span
            try:
                ended = self._start_and_supervise(child)
            finally:
                self.writer = None
            if (end := ended.end) is not None:
                failed = end.outcome in (Outcome.FAILED, Outcome.INTERRUPTED)
                why = (end.error or end.outcome.value) if failed else ""
                span.note(why, attempt=end.attempt, outcome=end.outcome.value)
            return ended

    def _start_and_supervise(self, child: Child) -> Ended:
        scope = self._order.instance.scope
        if self._stop is not None:  # it was stopped before there was a child to signal
            return self._ended()
        try:
            self._declared = Declared.by(self._order.task, self._resources.store)
            start = c.StartAttempt(
                *(scope, child.process, LEASE, self._order.instance.attempt),
                *(self._order.task.pool, self._order.task.pool_slots),
            )
            writer = self.writer = TaskWriter(scope, self._resources.store.execute(start))
            self._started = time.monotonic()
        except NoFreeSlot:
            return self._ended(refused=True)
        except HoldfastError as error:
            return self._ended(error.message)
        try:
            with self._uploading_log(writer, new=True):
                return self._supervise(child, writer)
        except HoldfastError as error:
            return self._ended(error.message, called=False)
        except Exception as error:
            # A bug of ours, which must not leave the task running forever in the store.
            log.exception("supervising %s failed", scope)
            if self.writer is not None:  # else its end is recorded
                why = f"the supervisor failed: {type(error).__name__}: {error}"
                try:
                    ending = self._finish(writer, Failed(error=why), None)
                except HoldfastError as unrecorded:
                    return self._ended(unrecorded.message, called=False)
                return self._ended(called=False, end=self._end(writer, ending))
            return self._ended(called=False)

    def call_back(self, kind: CallbackKind, error: str) -> bool:
        """Call the task's callbacks for an attempt whose own supervisor could not.

        Return True if they were called, or never will be.
        """
        self._declared = Declared.by(self._order.task, self._resources.store)
        instance = self._order.instance
        writer = TaskWriter(instance.scope, instance.attempt + 1)
        path = self._log(writer)
        if not path.exists():  # the attempt was on another machine, or never began
            path = callbacks_log(self._resources.home)
            return self._call_back(writer, kind, error, None, path)
        with self._uploading_log(writer, new=False):
            return self._call_back(writer, kind, error, None, path)

    def stop(self, why: StopReason) -> None:
        """Send SIGTERM to the task; `tick` kills it `GRACE` seconds later."""
        if self._stop is None or (self._stop, why) == (StopReason.SPARK, StopReason.INTERRUPT):
            self._stop = why  # a stop of all processes ends Spark, too
            self._was_stopped.set()
        if self._child is not None and self._kill_at is None:
            self._kill_at = time.monotonic() + GRACE
            self._child.kill(signal.SIGTERM)

    def tick(self) -> None:
        """Enforce the execution timeout and the kill after `stop`; to be called periodically."""
        now = time.monotonic()
        if self._timeout_at is not None and now > self._timeout_at:
            self._timeout_at = None
            self.stop(StopReason.TIMEOUT)
        if self._child is not None and self._kill_at is not None and now > self._kill_at:
            self._child.kill()

    def _supervise(self, child: Child, writer: TaskWriter) -> Ended:
        log_file = self._log(writer)
        child.log_to(log_file)
        report = self._run_child(child, writer)
        if not child.wait(EXIT_TIMEOUT):
            if report is None and self._stop is None:
                self._stop = StopReason.SILENT
            child.kill()
            child.wait()
        if self._stop in (None, StopReason.SPARK) and got_sigterm(report, child.status):
            # Perhaps from a stop of all processes, of which this one is about to learn.
            self._was_stopped.wait(STOP_DELAY)
        if self._stop is StopReason.LOST:
            return self._ended(called=False)
        ending = self._finish(writer, report, child.status)
        if ending is None:
            return self._ended(called=False)
        self.writer = None
        end = self._end(writer, ending)
        called, kind = True, CALLBACKS.get(ending.state)
        if kind in self._order.task.callbacks:
            exception = report.exception if isinstance(report, Failed) else None
            called = self._call_back(writer, kind, ending.error, exception, log_file)
        return self._ended(called=called, end=end)

    def _end(self, writer: TaskWriter, ending: Ending | None) -> AttemptEnd | None:
        if ending is None:
            return None
        assert writer.attempt is not None
        return AttemptEnd(
            attempt=writer.attempt,
            outcome=ending.outcome,
            state=ending.state,
            error=ending.error,
            ready_at=ending.ready_at,
            orderly=ending.orderly,
            seconds=time.monotonic() - self._started,
        )

    def _run_child(self, child: Child, writer: TaskWriter) -> Report | None:
        startup = self._startup(writer)
        try:
            if self._order.task.spark:
                startup = msgspec.structs.replace(startup, spark=self._resources.spark.address())
        except HoldfastError as error:
            child.kill()
            child.wait(EXIT_TIMEOUT)
            # Without an exit status, the launcher has died, and Spark with it.
            return None if child.status is None else Failed(error=str(error))
        task = self._order.task
        if task.execution_timeout is not None:
            self._timeout_at = time.monotonic() + task.execution_timeout.total_seconds()
        if self._stop is not None:  # it was stopped while it waited for Spark
            child.kill()
        try:
            child.channel.send(STARTUP, encode(startup))
        except OSError:
            return None
        except ValueTooLarge as error:
            return Failed(error=f"it could not be started: {error.message}")
        store, identity = self._resources.store, self._declared.child(writer)
        endpoint = partial(open_endpoint, self._resources.endpoints, store, identity)
        limit = self._resources.rules.max_value_bytes
        report = own_report(task, relay(child.channel, store, identity, limit, endpoint))
        self._timeout_at = None
        if isinstance(report, Failed) and startup.spark:
            if report.spark_is_busy:
                self._resources.spark.end(startup.spark)
            if self._resources.spark.is_lost(startup.spark):
                self._stop = self._stop or StopReason.SPARK
        return report

    def _startup(self, writer: TaskWriter) -> TaskStartup:
        order = self._order
        return TaskStartup(
            file=order.file,
            writer=writer,
            run=order.run,
            max_tries=(writer.attempt or 1) + order.task.retries - order.instance.failures,
            rules=self._resources.rules,
            aliases=self._declared.aliases,
            traceparent=self._span.traceparent,
        )

    def _finish(
        self, writer: TaskWriter, report: Report | None, status: int | None
    ) -> Ending | None:
        """Record the end and return it; None if the attempt was superseded before that."""
        task, instance, now = self._order.task, self._order.instance, datetime.now(UTC)
        ending = ending_of(task, instance, report, status, self._stop, now)
        try:
            return self._record(writer, ending)
        except StaleAttempt:
            return None
        except StoreUnavailable:
            raise
        except HoldfastError as error:
            # The success was refused, as for a staged write whose version has changed since.
            failed = Failed(error=error.message)
            ending = ending_of(task, instance, failed, status, None, now)
            return self._record(writer, ending)

    def _record(self, writer: TaskWriter, ending: Ending) -> Ending:
        succeeded = ending.outcome is Outcome.SUCCESS
        clear = succeeded and self._resources.rules.clear_on_success
        finish = c.FinishAttempt(writer, succeeded, clear, ending)
        try:
            self._resources.store.execute(finish)
        except StoreUnavailable:
            # The response may have been lost after the commit; only the store knows.
            if not self._is_recorded(writer, ending.outcome):
                self._resources.store.execute(finish)
        return ending

    def _is_recorded(self, writer: TaskWriter, outcome: Outcome) -> bool:
        attempts = self._resources.store.execute(c.ListAttempts(writer.scope))
        return any(one.number == writer.attempt and one.outcome is outcome for one in attempts)

    def _call_back(
        self,
        writer: TaskWriter,
        kind: CallbackKind,
        error: str,
        exception: bytes | None,
        log_file: Path,
    ) -> bool:
        startup = CallbackStartup(
            file=self._order.file,
            run=self._order.run,
            kind=kind,
            task=self._startup(writer),
            error=error,
            exception=exception,
        )
        return call_back(self._resources, startup, log_file, self._declared.child(writer))

    def _log(self, writer: TaskWriter) -> Path:
        assert writer.attempt is not None
        return log_path(self._resources.home, writer.scope, writer.attempt)

    def _uploading_log(self, writer: TaskWriter, *, new: bool) -> AbstractContextManager[None]:
        uploads = self._resources.log_uploads
        return uploads.uploading(self._log(writer), new=new) if uploads else nullcontext()


def got_sigterm(report: Report | None, status: int | None) -> bool:
    """Return whether SIGTERM ended the work of a child."""
    if isinstance(report, Failed):
        return report.got_sigterm
    return report is None and status == -signal.SIGTERM


def call_back(
    resources: Resources,
    startup: CallbackStartup,
    path: Path,
    task: ChildIdentity | None = None,
) -> bool:
    """Run callbacks of a task or run in their own process; retry if the launcher dies meanwhile.

    Their outcome has no other effect. Return False if the DAG's file is broken: they may be called
    once it is fixed.
    """
    identity = CallbackIdentity(startup.run.dag_id, startup.run.run_id, task)
    launcher, store = resources.launcher, resources.store
    why = ""
    for _ in range(MOST_INTERRUPTIONS):
        try:
            report = run_child(launcher, startup, path, store, identity, CALLBACK_LIMIT)
        except LauncherGone as error:
            why = error.message
            time.sleep(PAUSE)
            continue
        except HoldfastError as error:
            why = error.message
            break
        if not isinstance(report, Failed):
            return True
        if report.file_is_broken:
            return False
        why = report.error
        break
    whose = task.scope if task else f"{startup.run.dag_id}/{startup.run.run_id}"
    log.warning("callbacks of %s failed: %s; see %s", whose, why, path)
    return True
