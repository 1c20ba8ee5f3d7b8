"""A supervisor's link to its launcher: starts, signals and awaits child processes."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread, Timer
from uuid import uuid4

import msgspec

from holdfast.environment import public_environment
from holdfast.errors import HoldfastError
from holdfast.model.run import Process
from holdfast.process import MARK, identify, kill_group
from holdfast.runner.protocol.launches import (
    Exited,
    Kill,
    Launch,
    Launched,
    Notice,
    NotLaunched,
    NotLogged,
    Order,
    PreloadSpark,
    WriteLog,
)
from holdfast.settings import VARIABLE_PREFIX, Logs
from holdfast.wire.channel import LARGEST_OF_TASK, ORDER, Channel, encode

HOME = f"{VARIABLE_PREFIX}CORE__HOME"
"""The only setting that tasks inherit from the environment: it locates the files of their jobs."""

log = logging.getLogger("holdfast.supervisor")

_notice_decoder: msgspec.msgpack.Decoder[Notice] = msgspec.msgpack.Decoder(Notice)


class LauncherGone(HoldfastError):
    """The launcher process, which starts the tasks, has ended, or cannot start another one."""

    code = "launcher_gone"


class Child:
    """A forked process, which waits for its startup message. Leaving its `with` block kills it."""

    def __init__(self, launcher: LauncherLink, number: int, channel: Channel, mark: str) -> None:
        self._launcher = launcher
        self._number = number
        self._mark = mark
        self._launched = Event()
        self._refusal = "the launcher has ended"
        self._ended = Event()
        self.channel = channel
        self.process: Process | None = None
        self.status: int | None = None
        """The exit status, or the negative number of a signal; None while the process runs, and if
        its end was not observed."""

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()
        self.wait()
        self.channel.close()

    def log_to(self, path: Path) -> None:
        with suppress(LauncherGone):  # and the child with it, which `wait` reports
            self._launcher.order(WriteLog(self._number, str(path), self._launcher.log_size))

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the process, or SIGKILL to its group. Do nothing if it has ended."""
        with suppress(LauncherGone):
            self._launcher.order(Kill(self._number, number))

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Kill the process if the `with` block takes longer than `seconds`."""
        timer = Timer(seconds, self.kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the process; return False on timeout."""
        return self._ended.wait(timeout)

    def wait_launched(self) -> None:
        self._launched.wait()
        if self.process is None:
            self.channel.close()
            raise LauncherGone(self._refusal)

    def handle(self, notice: Notice) -> None:
        if isinstance(notice, Launched):
            self.process = identify(notice.pid, self._mark)
            self._launched.set()
        elif isinstance(notice, NotLaunched):
            self._refusal = f"no process can be started: {notice.reason}"
            self.end(None)
        elif isinstance(notice, NotLogged):
            log.warning("the log %s", notice.reason)
        else:
            self.end(notice.status)

    def end(self, status: int | None) -> None:
        self.status = status
        self.channel.end_input()
        self._ended.set()
        self._launched.set()


class LauncherLink:
    """A launcher process, restarted after it has died, and the children that it has forked."""

    def __init__(self) -> None:
        self.log_size = Logs().max_size
        """The maximum size of each child's log."""
        self._lock = Lock()
        self._last = 0
        self._spark = False
        self._closed = False
        self._start()

    def _start(self) -> None:
        ours, its = socket.socketpair()
        environ = public_environment()
        if HOME in os.environ:
            environ[HOME] = os.environ[HOME]
        # Its children inherit the mark in their environment, by which they are recognized later.
        self._mark = environ[MARK] = uuid4().hex
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "holdfast.runner.launcher", str(its.fileno())],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            env=environ,
        )
        its.close()
        self._control = Channel(ours)
        self._children: dict[int, Child] = {}
        listening = (self._popen, self._control, self._children)
        Thread(target=_listen, args=listening, daemon=True).start()
        if self._spark:
            self._send(PreloadSpark())

    def launch(self) -> Child:
        """Return a new child, which waits for a startup message on its channel.

        Raise LauncherGone if this link is closed, the launcher dies meanwhile, or the machine has
        no room for another process.
        """
        try:
            ours, its = socket.socketpair()
            with its, self._lock:
                if self._closed:
                    raise LauncherGone("the supervisor is stopping, and starts no more tasks")
                if self._popen.poll() is not None:
                    self._start()
                number = self._last = self._last + 1
                channel = Channel(ours, LARGEST_OF_TASK)
                child = self._children[number] = Child(self, number, channel, self._mark)
                self._send(Launch(number), its.fileno())
        except OSError as error:
            raise LauncherGone(f"no process can be started: {error.strerror}") from None
        child.wait_launched()
        return child

    def preload_spark(self) -> None:
        """Have the launcher import the modules of Spark tasks, so that children need not."""
        with self._lock:
            if not self._spark:
                self._spark = True
                self._send(PreloadSpark())

    def order(self, order: Order) -> None:
        with self._lock:
            self._send(order)

    def close(self) -> None:
        """End the launcher and all its children; no others can be started."""
        with self._lock:
            self._closed = True
        self._control.close()
        self._popen.wait()

    def _send(self, order: Order, *descriptors: int) -> None:
        try:
            self._control.send_with(ORDER, encode(order), list(descriptors))
        except OSError:
            raise LauncherGone("the launcher has ended") from None


def _listen(popen: subprocess.Popen[bytes], control: Channel, children: dict[int, Child]) -> None:
    """Dispatch the notices of one launcher to its children until it ends, and they with it."""
    while (frame := control.receive()) is not None:
        notice = _notice_decoder.decode(frame[1])
        children[notice.child].handle(notice)
        if isinstance(notice, NotLaunched | Exited):
            del children[notice.child]
    popen.wait()
    while children:
        child = children.popitem()[1]
        if child.process is not None:
            kill_group(child.process)  # it ends by itself, but not while it holds the GIL
        child.end(None)
