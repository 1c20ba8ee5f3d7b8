"""Spark server that a supervisor's tasks share, started when it is first needed."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from threading import Event, Lock, Thread

from holdfast.errors import SparkUnavailable
from holdfast.model.run import Process
from holdfast.process import identify
from holdfast.runner.protocol.messages import STARTUP, Failed, Ready, report_decoder
from holdfast.runner.supervisor.launcher_link import Child, LauncherLink
from holdfast.settings import Settings
from holdfast.spark.session.address import SparkAddress, SparkStartup
from holdfast.wire.channel import encode

PORT_TIMEOUT = 30.0
"""Seconds in which the port of a killed server has to close."""


class SparkServer:
    """The shared Spark server, restarted after it has died, alone or with the launcher."""

    def __init__(self, settings: Settings, launcher: LauncherLink) -> None:
        self._settings = settings
        self._launcher = launcher
        # Identified now, while it lives: a supervisor that is stopped may outlive it.
        self._runner = identify(os.getppid())
        self._lock = Lock()
        self._current: _Serving | None = None
        self._stopping = False

    def warm(self) -> None:
        """Start Spark in the background, and preload its modules for tasks."""
        if not self._settings.spark.remote:
            self._serving()  # first: it takes longer, and the launcher does one thing at a time
        self._launcher.preload_spark()

    def address(self) -> SparkAddress:
        """Return the server's address once it listens. Raise SparkUnavailable if it fails."""
        self._launcher.preload_spark()
        if self._settings.spark.remote:
            from holdfast.spark.session.session import address_of

            return address_of(self._settings.spark.remote)
        return self._serving().address()

    def end(self, address: SparkAddress) -> None:
        """End the server at that address, if it is one of ours, and wait until it has ended."""
        if self._settings.spark.remote:
            return
        with self._lock:
            if self._current is None or self._current.ready != address:
                return  # it was ended for another attempt
            self._current.child.kill()
            self._current.child.wait()
            self._current = None
            # Its port is open until its last thread has ended; after that, to another program.
            given_up = time.monotonic() + PORT_TIMEOUT
            while _listens(address) and time.monotonic() < given_up:
                time.sleep(0.05)

    def stop(self) -> None:
        """End a server that has not started yet: attempts that wait for it are being stopped."""
        with self._lock:
            self._stopping = True
            if self._current is not None and self._current.ready is None:
                self._current.child.kill()

    def is_lost(self, address: SparkAddress) -> bool:
        """Return whether the server that an attempt used was one of ours and is gone."""
        if self._settings.spark.remote:
            return False
        # Its port may be open because another program has taken it.
        current = self._current
        return current is None or current.ready != address or not _listens(address)

    def _serving(self) -> _Serving:
        with self._lock:
            if self._stopping:
                raise SparkUnavailable("the supervisor is stopping, and starts no Spark")
            if self._current is None or self._current.has_ended:
                self._current = _Serving(self._launcher.launch(), self._settings, self._runner)
            return self._current


class _Serving:
    """One process of the server, from its start to its end."""

    def __init__(self, child: Child, settings: Settings, runner: Process) -> None:
        self.child = child
        self._reported = Event()
        self._error = "its process ended"
        self.ready: SparkAddress | None = None
        """Its address, once it responds to requests."""
        directory = settings.home / "spark"
        child.log_to(directory / "keeper.log")
        spark = settings.spark
        startup = SparkStartup(
            master=spark.master, conf=dict(spark.conf), directory=str(directory), runner=runner
        )
        with suppress(OSError):  # it has died, which `_listen` detects
            child.channel.send(STARTUP, encode(startup))
        Thread(target=self._listen, daemon=True).start()

    @property
    def has_ended(self) -> bool:
        return self._reported.is_set() and (self.ready is None or self.child.wait(timeout=0))

    def address(self) -> SparkAddress:
        self._reported.wait()
        if self.ready is None:
            raise SparkUnavailable(f"Spark did not start: {self._error}")
        return self.ready

    def _listen(self) -> None:
        try:
            frame = self.child.channel.receive()
            report = report_decoder.decode(frame[1]) if frame else None
            if isinstance(report, Ready):
                self.ready = report.address
            elif isinstance(report, Failed):
                self._error = report.error
        finally:
            self._reported.set()


def _listens(address: SparkAddress) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", address.port)) == 0
