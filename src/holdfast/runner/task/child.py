"""Main function of a forked child: receives a startup message, does its work, and reports."""

from __future__ import annotations

import atexit
import io
import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from types import FrameType
from typing import Final

from holdfast.errors import HoldfastError
from holdfast.runner.protocol.messages import (
    REPORT,
    CallbackStartup,
    Done,
    Failed,
    ParseStartup,
    Ready,
    Report,
    Startup,
    WatchStartup,
    startup_decoder,
)
from holdfast.runner.task import dag_import, execution, watching
from holdfast.runner.task.tracebacks import one_line
from holdfast.settings import withhold_secrets
from holdfast.spark.session.address import SparkStartup
from holdfast.stores.pipe import PipeStore
from holdfast.wire.channel import LARGEST_OF_TASK, Channel, encode

BLOCKED: Final = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
"""Signals that wait until the child has its startup message, which decides how it handles them."""

log = logging.getLogger("holdfast.task")


class Stopped(BaseException):
    """The supervisor has asked the task to end. Not an Exception, so that few handlers catch it."""


def main(sock: socket.socket, lifeline: int) -> int:
    """Do the child's work and return its exit status: 0 for success, 1 for failure."""
    withhold_secrets()
    channel = Channel(sock, LARGEST_OF_TASK)
    store = PipeStore(channel)
    Thread(target=_end_with_launcher, args=(lifeline,), daemon=True).start()
    frame = channel.receive()
    if frame is None:
        return 1
    startup = startup_decoder.decode(frame[1])
    _log_to_stderr()
    # A SIGTERM to all processes of a runner must not stop the callbacks that report their end.
    is_callback = isinstance(startup, CallbackStartup)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if is_callback else _stopper(store))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = os.getpid()
    report = _do_work(startup, store, channel)
    if os.getpid() != process:
        return 0  # a fork of the task that has run on to here
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends now in any case
    _flush()
    status = 1 if isinstance(report, Failed) else 0
    try:
        _send_report(channel, report)
    except OSError:
        log.warning("the task's connection to its supervisor is closed: its result is lost")
        status = 1
    atexit._run_exitfuncs()
    _flush()
    return status


def _send_report(channel: Channel, report: Report) -> None:
    try:
        channel.send(REPORT, encode(report))
    except OSError:
        raise
    except Exception as error:
        log.exception("the task's result cannot be sent")
        failed = Failed(error=f"its result cannot be sent: {one_line(error)}")
        channel.send(REPORT, encode(failed))


def _do_work(startup: Startup, store: PipeStore, channel: Channel) -> Report:
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
        if isinstance(startup, SparkStartup):
            from holdfast.spark.session.server import serve

            serve(startup, lambda address: channel.send(REPORT, encode(Ready(address))))
            return Done()
        if isinstance(startup, ParseStartup):
            return dag_import.parse(startup)
        if isinstance(startup, CallbackStartup):
            return execution.call_back(startup, store)
        if isinstance(startup, WatchStartup):
            return watching.watch(startup, store)
        return execution.execute(startup, store)
    except Stopped:
        return Failed(error="it was asked to stop", got_sigterm=True)
    except HoldfastError as error:
        return Failed(error=str(error))
    except BaseException as error:  # also SystemExit and KeyboardInterrupt of the task
        traceback.print_exc()
        return Failed(error=f"{type(error).__name__}: {error}")


def _stopper(store: PipeStore) -> Callable[[int, FrameType | None], None]:
    def stop(number: int, frame: FrameType | None) -> None:
        # Once: a second one, as when the whole process group is stopped, would interrupt `on_kill`.
        signal.signal(number, signal.SIG_IGN)
        store.interrupt(Stopped())

    return stop


def _end_with_launcher(lifeline: int) -> None:
    """Kill this process and its group when the launcher is gone, as nobody else would."""
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


def _log_to_stderr() -> None:
    # New streams, because the launcher's were made for other files. Line-buffered, so that output
    # before a kill is in the log.
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(number, "w", closefd=False)),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )
        for number in (1, 2)
    )
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
        force=True,
    )


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
