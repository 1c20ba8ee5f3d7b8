"""Supervisor of attempts and watchers, with a thread for each, for deadlines and for leases."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Event, Lock, Semaphore, Thread, current_thread

from holdfast import commands as c
from holdfast.access.identity import ImportIdentity
from holdfast.actions.logs import service_logs
from holdfast.connection import open_store, rules
from holdfast.errors import Forbidden, HoldfastError, StoreUnavailable
from holdfast.process import PRIVATE, this_process
from holdfast.runner.protocol.messages import STARTUP, CallbackStartup, Failed, Parsed, ParseStartup
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
    order_decoder,
)
from holdfast.runner.protocol.parameters import ALIVE, HEARTBEAT, LEASE
from holdfast.runner.supervisor.attempt import Attempt, Resources, call_back
from holdfast.runner.supervisor.ending import StopReason
from holdfast.runner.supervisor.launcher_link import LauncherGone, LauncherLink
from holdfast.runner.supervisor.purger import Purger
from holdfast.runner.supervisor.relay import relay
from holdfast.runner.supervisor.spark_server import SparkServer
from holdfast.runner.supervisor.watcher import Watching
from holdfast.server.endpoint import Endpoints
from holdfast.settings import Settings, load
from holdfast.store import Store
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


class _ImportKilled(HoldfastError):
    """The process of an import was killed, perhaps for its memory."""

    code = "import_killed"


class Supervisor:
    def __init__(self, scheduler: Channel, launcher: LauncherLink) -> None:
        settings = load()
        with suppress(OSError):  # there will be no logs, which the launcher reports
            settings.home.mkdir(PRIVATE, parents=True, exist_ok=True)
        self._scheduler = scheduler
        self._launcher = launcher
        self._through_server = bool(settings.workers.server_url)
        self._token = ""
        self._token_came = Condition()
        self._store = self._open_store(settings)
        self._spark = SparkServer(settings, launcher)
        self._endpoints = Endpoints(settings, self._store)
        its = rules(settings)
        self._resources = Resources(
            self._store, launcher, its, settings.home, self._spark, self._endpoints
        )
        self._purger = Purger(self._store, its.offloading) if its.offloading.backend else None
        self._lock = Lock()
        self._threads: set[Thread] = set()
        self._attempts: set[Attempt] = set()
        self._watchings: dict[str, Watching] = {}
        self._stopping = Event()
        self._imports = Semaphore(os.cpu_count() or 1)

    def run(self) -> None:
        """Carry out orders until one to stop, SIGTERM, or the end of the scheduler."""
        signal.signal(signal.SIGTERM, lambda number, frame: self._scheduler.end_input())
        self._send(Alive())  # before any order: a task may kill this process at once
        for keeps_on in (self._keep_time, self._keep_leases):
            Thread(target=keeps_on, daemon=True).start()
        if self._purger is not None:
            self._purger.start()
        while (frame := self._scheduler.receive()) is not None:
            order = order_decoder.decode(frame[1])
            if isinstance(order, Stop):
                break
            self._take(order)
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
        if self._purger is not None:
            self._purger.stop()
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
            sys.exit("error: the scheduler ended before it sent the server's address")
        from holdfast.stores.http import HttpStore

        self._token = order.token
        return HttpStore(order.url, order.token, retry_window=window, new_token=self._new_token)

    def _take(self, order: Order) -> None:
        if isinstance(order, RunTask):
            self._begin(self._attempt, order)
        elif isinstance(order, ParseFile):
            self._begin(self._parse, order)
        elif isinstance(order, CallBack):
            self._begin(self._call_back, order)
        elif isinstance(order, WarmSpark):
            self._begin(self._warm_spark, order)
        elif isinstance(order, WatchAsset):
            self._watch(order)
        elif isinstance(order, UseServer):
            with self._token_came:
                self._token = order.token
                self._token_came.notify_all()
        elif isinstance(order, Unwatch):
            watching = self._watchings.pop(_name(order), None)
            if watching is not None:
                watching.stop()

    def _begin(self, work: Callable[[Order], None], order: Order) -> None:
        """Carry out an order in its own thread.

        The thread is joined at the end unless the order is an import or to warm Spark, which have
        nothing to record or call.
        """

        def run() -> None:
            try:
                work(order)
            except HoldfastError as error:
                log.warning("%s", error)
            finally:
                with self._lock:
                    self._threads.discard(current_thread())

        thread = Thread(target=run, daemon=True)
        if not isinstance(order, ParseFile | WarmSpark):
            with self._lock:
                self._threads.add(thread)
        thread.start()

    def _attempt(self, order: Order) -> None:
        assert isinstance(order, RunTask)
        attempt = Attempt(order, self._resources)
        with self._lock:
            self._attempts.add(attempt)
        if self._stopping.is_set():
            attempt.stop(StopReason.INTERRUPT)
        ended = Ended(order.instance.scope, called=False)
        try:
            ended = attempt.run()
        finally:
            with self._lock:
                self._attempts.discard(attempt)
            if self._purger is not None:
                self._purger.wake()
            self._send(ended)

    def _parse(self, order: Order) -> None:
        assert isinstance(order, ParseFile)
        parsed = Parsed(error=f"{order.file} could not be imported: the supervisor failed")
        try:
            for _ in range(MOST_IMPORTS):
                try:
                    with self._imports:
                        parsed = self._import(order.file)
                    break
                except (LauncherGone, _ImportKilled) as error:
                    parsed = Parsed(error=f"{order.file} could not be imported: {error.message}")
                    self._stopping.wait(TICK)
        finally:
            self._send(FileParsed(order.file, parsed))

    def _import(self, file: str) -> Parsed:
        child = self._launcher.launch()
        report, began = None, time.monotonic()
        try:
            child.log_to(service_logs(self._resources.home) / "dag-files.log")
            with child.limited(PARSE_LIMIT), suppress(OSError):
                child.channel.send(STARTUP, encode(ParseStartup(file)))
                report = relay(child.channel, self._store, ImportIdentity())
        finally:
            child.kill()
            child.wait()
            child.channel.close()
        if isinstance(report, Parsed):
            return report
        late = time.monotonic() > began + PARSE_LIMIT
        if report is None and child.status is None:
            raise LauncherGone("the launcher has ended")
        if report is None and child.status is not None and child.status < 0 and not late:
            raise _ImportKilled(f"its process was killed by signal {-child.status}")
        why = f"its process ended ({child.status})"
        if isinstance(report, Failed):
            why = report.error
        elif late:
            why = f"it took longer than {PARSE_LIMIT:.0f} s"
        return Parsed(error=f"{file} could not be imported: {why}")

    def _call_back(self, order: Order) -> None:
        assert isinstance(order, CallBack)
        called = True
        try:
            called = self._called_back(order)
        finally:
            self._send(CalledBack(order.number, called))

    def _called_back(self, order: CallBack) -> bool:
        if order.attempt is None:
            startup = CallbackStartup(
                file=order.file, run=order.run, kind=order.kind, error=order.error
            )
            path = service_logs(self._resources.home) / "callbacks.log"
            return call_back(self._resources, startup, path)
        while True:
            try:
                attempt = Attempt(order.attempt, self._resources)
                return attempt.call_back(order.kind, order.error)
            except StoreUnavailable as error:
                scope = order.attempt.instance.scope
                log.warning("callbacks of %s are waiting for the store: %s", scope, error.message)
                if self._stopping.wait(STORE_RETRY_PAUSE):
                    raise

    def _warm_spark(self, order: Order) -> None:
        with suppress(HoldfastError):  # the attempts that need it report why
            self._spark.warm()

    def _watch(self, order: WatchAsset) -> None:
        watching = self._watchings[_name(order)] = Watching(order, self._resources)
        self._begin(lambda _: watching.run(), order)

    def _keep_time(self) -> None:
        """Enforce deadlines and report `Alive`; never wait for anything, such as the database."""
        sent_at = 0.0
        while True:
            time.sleep(TICK)
            for attempt in self._current_attempts():
                try:
                    attempt.tick()
                except Exception:
                    log.exception("the deadlines of an attempt were not checked")
            if time.monotonic() > sent_at + ALIVE:
                sent_at = time.monotonic()
                self._send(Alive())

    def _keep_leases(self) -> None:
        while True:
            time.sleep(HEARTBEAT)
            try:
                self._renew(self._current_attempts())
            except Exception:
                log.exception("the leases were not renewed")

    def _current_attempts(self) -> list[Attempt]:
        with self._lock:
            return list(self._attempts)

    def _renew(self, attempts: list[Attempt]) -> None:
        writers = {attempt.writer: attempt for attempt in attempts if attempt.writer is not None}
        watches = {one.watch: one for one in list(self._watchings.values()) if one.watch}
        if not writers and not watches and not self._through_server:
            return  # a server gets a request all the same: its response renews the token
        heartbeat = c.Heartbeat(
            process=this_process(), lease=LEASE, attempts=tuple(writers), watches=tuple(watches)
        )
        try:
            lost = self._store.execute(heartbeat)
        except Forbidden as error:
            log.warning("%s; a new supervisor is needed", error.message)
            self._scheduler.end_input()
            return
        except HoldfastError as error:
            log.warning("the heartbeat failed: %s", error.message)
            return
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


def _name(order: WatchAsset | Unwatch) -> str:
    return f"{order.watcher.asset.name}\0{order.watcher.name}"
