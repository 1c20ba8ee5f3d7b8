"""Supervisor of attempts and watchers, with a thread for each, for deadlines and for leases."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Condition, Event, Lock, Semaphore, Thread, current_thread

from holdfast import commands as c
from holdfast.access.identity import ImportIdentity
from holdfast.actions.logs import callbacks_log, service_logs
from holdfast.connection import open_store, rules
from holdfast.errors import Forbidden, HoldfastError, RunnerFailed, StoreUnavailable
from holdfast.process import PRIVATE, call_on_signals, this_process
from holdfast.runner.protocol.messages import CallbackStartup, Failed, Parsed, ParseStartup
from holdfast.runner.protocol.orders import (
    Alive,
    CallBack,
    CalledBack,
    Ended,
    FileParsed,
    NeedToken,
    Order,
    ParseFile,
    RunTask,
    Stop,
    Unwatch,
    Upward,
    UseServer,
    WarmSpark,
    WatchAsset,
    WatcherFailed,
    order_decoder,
)
from holdfast.runner.protocol.parameters import ALIVE, HEARTBEAT, LEASE
from holdfast.runner.supervisor.attempt import Attempt, Resources, call_back
from holdfast.runner.supervisor.ending import StopReason
from holdfast.runner.supervisor.launcher_link import LauncherGone, LauncherLink
from holdfast.runner.supervisor.log_uploads import LogUploads
from holdfast.runner.supervisor.purger import Purger
from holdfast.runner.supervisor.relay import ChildKilled, run_child
from holdfast.runner.supervisor.spark_server import SparkServer
from holdfast.runner.supervisor.watcher import Watching
from holdfast.server.endpoint import Endpoints
from holdfast.settings import Settings
from holdfast.store import Store
from holdfast.stores.traced import traced
from holdfast.wire.channel import NOTICE, Channel, encode

TICK = 0.1
PARSE_LIMIT = 60.0
TOKEN_LIMIT = 10.0
"""Seconds that the scheduler has to respond with a new token."""
STORE_RETRY_PAUSE = 1.0
"""Seconds before callbacks retry while the store is unavailable."""
MOST_IMPORTS = 3
"""Maximum tries to import a file while the process of the import, or the launcher, is killed."""

log = logging.getLogger("holdfast.supervisor")


class Supervisor:
    def __init__(self, settings: Settings, scheduler: Channel, launcher: LauncherLink) -> None:
        with suppress(OSError):  # there will be no logs, which the launcher reports
            settings.home.mkdir(PRIVATE, parents=True, exist_ok=True)
        self._scheduler = scheduler
        self._launcher = launcher
        launcher.log_size = settings.logs.max_size
        self._through_server = bool(settings.workers.server_url)
        self._token = ""
        self._token_came = Condition()
        self._store = self._open_store(settings)
        self._spark = SparkServer(settings, launcher)
        self._endpoints = Endpoints(settings, self._store)
        its = rules(settings)
        url = settings.logs.url
        self._log_uploads = LogUploads(settings.home, url) if url else None
        self._resources = Resources(
            *(traced(self._store), launcher, its, settings.home, self._spark, self._endpoints),
            self._log_uploads,
        )
        self._purger = Purger(self._store, its.offloading) if its.offloading.backend else None
        self._helpers = [one for one in (self._purger, self._log_uploads) if one is not None]
        self._lock = Lock()
        self._threads: set[Thread] = set()
        self._attempts: set[Attempt] = set()
        self._watchings: dict[str, Watching] = {}
        self._stopping = Event()
        self._ended = Event()
        self._imports = Semaphore(os.cpu_count() or 1)

    def run(self) -> None:
        """Carry out orders until one to stop, a signal to stop, or the end of the scheduler."""
        signals = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
        call_on_signals(signals, self._scheduler.end_input)
        self._send(Alive())  # before any order: a task may kill this process at once
        for keeps_on in (self._enforce_deadlines, self._keep_leases):
            Thread(target=keeps_on, daemon=True).start()
        for helper in self._helpers:
            helper.start()
        while (frame := self._scheduler.receive()) is not None:
            order = order_decoder.decode(frame[1])
            if isinstance(order, Stop):
                break
            self._carry_out(order)
        self._stopping.set()
        with self._lock:
            attempts, threads = list(self._attempts), list(self._threads)
            watchings = list(self._watchings.values())
        for watching in watchings:
            watching.stop()
        for attempt in attempts:
            attempt.stop(StopReason.INTERRUPT)
        self._spark.stop()
        for thread in threads:
            thread.join()
        self._ended.set()
        for helper in self._helpers:
            helper.stop()
        self._launcher.close()
        self._endpoints.close()
        self._store.close()

    def _open_store(self, settings: Settings) -> Store:
        window = settings.core.retry_window
        if not settings.workers.server_url:
            return open_store(settings, retry_window=window)
        frame = self._scheduler.receive()
        order = order_decoder.decode(frame[1]) if frame else None
        if not isinstance(order, UseServer):
            raise RunnerFailed("the scheduler ended before it sent the server's address")
        from holdfast.stores.http import HttpStore

        self._token = order.token
        return HttpStore(order.url, order.token, retry_window=window, new_token=self._new_token)

    def _carry_out(self, order: Order) -> None:
        if isinstance(order, RunTask):
            scope = order.instance.scope
            failed = Ended(order.number, scope, "the supervisor failed to start it", begun=False)
            self._start_thread(f"attempt of {scope}", partial(self._run_attempt, order), failed)
        elif isinstance(order, ParseFile):
            broken = FileParsed(order.file, _not_imported(order.file, "the supervisor failed"))
            work = partial(self._import_file, order.file)
            self._start_thread(f"import of {order.file}", work, broken, joined=False)
        elif isinstance(order, CallBack):
            given_up = CalledBack(order.number)
            self._start_thread(
                f"callbacks of {order.whose}", partial(self._call_back, order), given_up
            )
        elif isinstance(order, WarmSpark):
            self._start_thread("start of Spark", self._warm_spark, joined=False)
        elif isinstance(order, WatchAsset):
            failed_once = partial(self._send, WatcherFailed(order.watcher))
            watching = Watching(order, self._resources, failed_once)
            self._watchings[_watcher_key(order)] = watching
            self._start_thread(watching.name, watching.run)
        elif isinstance(order, UseServer):
            with self._token_came:
                self._token = order.token
                self._token_came.notify_all()
        elif isinstance(order, Unwatch) and _watcher_key(order) in self._watchings:
            self._watchings.pop(_watcher_key(order)).stop()

    def _start_thread(
        self,
        what: str,
        work: Callable[[], Upward | None],
        failed: Upward | None = None,
        *,
        joined: bool = True,
    ) -> None:
        """Do some work in its own thread, and send the notice that it returns, if any.

        If it raises an exception, or there is no thread for it, `failed` is sent. The supervisor
        does not end before a `joined` thread.
        """

        def run() -> None:
            notice = failed
            try:
                notice = work()
            except HoldfastError as error:
                log.warning("%s: %s", what, error)
            except Exception:
                log.exception("%s: the supervisor failed", what)
            finally:
                if notice is not None:
                    self._send(notice)
                with self._lock:
                    self._threads.discard(current_thread())

        thread = Thread(target=run, name=what, daemon=True)
        if joined:
            with self._lock:
                self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError as error:  # there are too many threads and processes
            with self._lock:
                self._threads.discard(thread)
            if failed is None:
                raise
            log.warning("%s: %s", what, error)
            self._send(failed)

    def _run_attempt(self, order: RunTask) -> Ended:
        attempt = Attempt(order, self._resources)
        with self._lock:
            self._attempts.add(attempt)
        if self._stopping.is_set():
            attempt.stop(StopReason.INTERRUPT)
        try:
            return attempt.run()
        finally:
            with self._lock:
                self._attempts.discard(attempt)
            if self._purger is not None:
                self._purger.wake()

    def _import_file(self, file: str) -> FileParsed | None:
        """Import a file; return None if that was stopped, so that another supervisor imports it."""
        path = service_logs(self._resources.home) / "dag-files.log"
        why = ""
        for _ in range(MOST_IMPORTS):
            try:
                with self._imports:
                    report = run_child(
                        *(self._launcher, ParseStartup(file), path),
                        *(self._store, ImportIdentity(), PARSE_LIMIT),
                    )
            except (LauncherGone, ChildKilled) as error:
                why = error.message
            else:
                if isinstance(report, Parsed):
                    return FileParsed(file, report)
                why = report.error if isinstance(report, Failed) else "it sent an invalid report"
                if not (isinstance(report, Failed) and report.got_sigterm):
                    break
            if self._stopping.wait(TICK):
                return None
        return FileParsed(file, _not_imported(file, why))

    def _call_back(self, order: CallBack) -> CalledBack | None:
        """Call callbacks; return None if that was stopped, so that another supervisor does it."""
        if order.attempt is None:
            startup = CallbackStartup(
                file=order.file, run=order.run, kind=order.kind, error=order.error
            )
            path = callbacks_log(self._resources.home)
            return CalledBack(order.number, call_back(self._resources, startup, path))
        while True:
            try:
                attempt = Attempt(order.attempt, self._resources)
                return CalledBack(order.number, attempt.call_back(order.kind, order.error))
            except StoreUnavailable as error:
                whose, why = order.whose, error.message
                log.warning("callbacks of %s are waiting for the store: %s", whose, why)
                if self._stopping.wait(STORE_RETRY_PAUSE):
                    return None

    def _warm_spark(self) -> None:
        with suppress(HoldfastError):  # the attempts that need it report why
            self._spark.warm()

    def _enforce_deadlines(self) -> None:
        """Enforce deadlines and report `Alive`; never wait for anything, such as the database."""
        sent_at = 0.0
        while not self._ended.wait(TICK):
            for attempt in self._current_attempts():
                try:
                    attempt.tick()
                except Exception:
                    log.exception("the deadlines of an attempt were not checked")
            if time.monotonic() > sent_at + ALIVE:
                sent_at = time.monotonic()
                self._send(Alive())

    def _keep_leases(self) -> None:
        while not self._ended.wait(HEARTBEAT):
            try:
                self._renew_leases()
            except Forbidden as error:
                log.warning("%s; a new supervisor is needed", error.message)
                self._scheduler.end_input()
            except HoldfastError as error:
                log.warning("the heartbeat failed: %s", error.message)
            except Exception:
                log.exception("the leases were not renewed")

    def _current_attempts(self) -> list[Attempt]:
        with self._lock:
            return list(self._attempts)

    def _renew_leases(self) -> None:
        writers = {one.writer: one for one in self._current_attempts() if one.writer is not None}
        watches = {one.watch: one for one in list(self._watchings.values()) if one.watch}
        if not writers and not watches and not self._through_server:
            return  # a server gets a request all the same: its response renews the token
        heartbeat = c.Heartbeat(
            process=this_process(), lease=LEASE, attempts=tuple(writers), watches=tuple(watches)
        )
        lost = self._store.execute(heartbeat)
        for writer in lost.attempts:
            # The end may have been recorded meanwhile; then the attempt is over, not lost.
            if writers[writer].writer == writer:
                writers[writer].stop(StopReason.LOST)
        for watch in lost.watches:
            if watches[watch].watch == watch:
                watches[watch].lose()

    def _new_token(self) -> str:
        """Request a token from the scheduler; return the previous one if there is no response."""
        with self._token_came:
            before = self._token
            self._send(NeedToken())
            self._token_came.wait_for(lambda: self._token != before, TOKEN_LIMIT)
            return self._token

    def _send(self, notice: Upward) -> None:
        with suppress(OSError):
            self._scheduler.send(NOTICE, encode(notice))


def _not_imported(file: str, why: str) -> Parsed:
    return Parsed(error=f"{file} could not be imported: {why}")


def _watcher_key(order: WatchAsset | Unwatch) -> str:
    return f"{order.watcher.asset.name}\0{order.watcher.name}"
