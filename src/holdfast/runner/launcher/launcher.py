"""The launcher: a process without secrets that forks a child for each order.

It has loaded the modules that children need, so a child starts in milliseconds. It copies their
output to their logs, reports their exit to the supervisor, and leaves no process of theirs
running that stays in its group: each child has its own process group, which is killed when the
first process of the group has ended, and when the launcher has.
"""

from __future__ import annotations

import errno
import gc
import os
import selectors
import signal
import socket
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from holdfast.logs.files import LogWriter
from holdfast.runner.protocol.launches import (
    Exited,
    Launch,
    Launched,
    Notice,
    NotLaunched,
    NotLogged,
    Order,
    PreloadSpark,
    WriteLog,
)
from holdfast.runner.task.child import BLOCKED, main
from holdfast.wire.channel import NOTICE, Channel, encode

_READ = 1 << 16
_LARGEST_PIPE = 1 << 20
"""Bytes that a pipe can hold at most, unless root has enlarged it."""

_order_decoder: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)


@dataclass
class _Child:
    number: int
    pid: int
    output: int
    log: LogWriter | None = None
    """None before there is one, and if it cannot be written: then the output is discarded."""

    def close(self) -> None:
        os.close(self.output)
        if self.log is not None:
            self.log.close()


class Launcher:
    """Event loop of the process, which handles orders, exits of children, and their output."""

    def __init__(self, control: socket.socket) -> None:
        self._control = Channel(control)
        self._descriptors: list[int] = []
        self._children: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._lifeline, self._life = os.pipe()
        """A pipe whose reading end children watch: it reaches EOF when this process is gone."""
        self._woken, waker = socket.socketpair()
        for end in (self._woken, waker):
            end.setblocking(False)
        self._waker = waker
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        # The launcher ends when the supervisor does, which lets tasks end first. A child inherits
        # the mask, so that it loses no signal before it has handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
        self._selector.register(control, selectors.EVENT_READ, self._take_orders)
        self._selector.register(self._woken, selectors.EVENT_READ, self._reap)

    def run(self) -> None:
        """Handle events until the supervisor closes its end of the channel; then kill children."""
        self._open = True
        while self._open:
            for key, _ in self._selector.select():
                # An event before this one may have been the end of its child, and the descriptor
                # may have been reused since.
                if self._selector.get_map().get(key.fd) is key:
                    key.data()
        for child in self._children.values():
            _kill_group(child.pid)

    def _take_orders(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control.sock, _READ, 64)
        except ConnectionResetError:  # the supervisor has died with unread notices
            data, descriptors = b"", []
        self._descriptors += descriptors
        self._open = bool(data)
        self._control.feed(data)
        while (frame := self._control.taken()) is not None:
            self._carry_out(_order_decoder.decode(frame[1]))

    def _carry_out(self, order: Order) -> None:
        if isinstance(order, Launch):
            try:
                self._launch(order)
            except OSError as error:
                self._send(NotLaunched(order.child, str(error.strerror)))
        elif isinstance(order, PreloadSpark):
            _preload_spark()
        elif (child := self._children.get(order.child)) is None:
            return
        elif isinstance(order, WriteLog):
            try:
                child.log = LogWriter(Path(order.path), order.max_size)
            except OSError as error:  # as for lack of descriptors
                self._send(NotLogged(child.number, f"{order.path} cannot be written: {error}"))
            self._selector.register(
                child.output, selectors.EVENT_READ, lambda: self._copy_output(child)
            )
        else:
            with suppress(ProcessLookupError):
                os.kill(child.pid, order.signal)
            if order.signal == signal.SIGKILL:
                _kill_group(child.pid)

    def _launch(self, order: Launch) -> None:
        if not self._descriptors:  # the kernel drops those that a process has no room for
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        with socket.socket(fileno=self._descriptors.pop(0)) as sock:
            sock.set_inheritable(False)  # a received one is: programs that the task runs had it
            output, writes = os.pipe()
            try:
                pid = os.fork()
            except OSError:
                os.close(output)
                os.close(writes)
                raise
            if pid == 0:
                os.close(output)
                self._become_child(sock, writes)
        os.close(writes)
        os.set_blocking(output, False)
        self._children[order.child] = _Child(order.child, pid, output)
        self._send(Launched(order.child, pid))

    def _become_child(self, sock: socket.socket, output: int) -> None:
        """Run the child's work and exit, after closing the launcher's control channel and the
        descriptors of other children."""
        status = 1
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for ours in (self._control.sock, self._woken, self._waker):
                ours.close()
            for child in self._children.values():
                child.close()
            os.close(self._life)
            for standard in (1, 2):
                os.dup2(output, standard)
            os.close(output)
            status = main(sock, self._lifeline)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(status)

    def _copy_output(self, child: _Child) -> int:
        """Copy available output of a child to its log; return the number of bytes."""
        try:
            data = os.read(child.output, _READ)
        except BlockingIOError:
            return 0
        if not data:
            self._ignore_output(child)
        if child.log is not None:
            child.log.write(data)
        return len(data)

    def _ignore_output(self, child: _Child) -> None:
        with suppress(KeyError):  # its EOF may have been handled before
            self._selector.unregister(child.output)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            while self._woken.recv(_READ):
                pass
        for child in list(self._children.values()):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                _kill_group(pid)  # its remaining processes keep the group's id from being reused
                self._finish_child(child, os.waitstatus_to_exitcode(status))

    def _finish_child(self, child: _Child, status: int) -> None:
        del self._children[child.number]
        # Not until there is no more: a process that has left the group may write without end.
        left = _LARGEST_PIPE
        while left > 0 and (copied := self._copy_output(child)):
            left -= copied
        self._ignore_output(child)
        child.close()
        self._send(Exited(child.number, status))

    def _send(self, notice: Notice) -> None:
        with suppress(OSError):
            self._control.send(NOTICE, encode(notice))


def _preload_spark() -> None:
    with suppress(Exception):  # the task that needs it imports it again, and reports the error
        from holdfast.spark.session.preload import preload

        preload()
    gc.freeze()


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
