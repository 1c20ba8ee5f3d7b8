"""Messages between two processes: frames with their length in front, over a stream socket."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from threading import Lock

import msgspec

from holdfast.base_value import base_value

ORDER = b"O"
NOTICE = b"N"
"""Kinds of frames: downward and upward."""

encode = msgspec.msgpack.Encoder(enc_hook=base_value).encode

_LENGTH = struct.Struct(">I")
_CHUNK = 1 << 16
_LONGEST = 1 << 30


class Channel:
    """One end of a socket pair. Several threads may send; one receives."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._received = bytearray()
        self._sending = Lock()

    def send(self, kind: bytes, data: bytes = b"") -> None:
        """A frame: what it is, in one byte, and its content. OSError where nobody listens."""
        with self._sending:
            self.sock.sendall(_LENGTH.pack(len(data) + 1) + kind + data)

    def send_with(self, kind: bytes, data: bytes, descriptors: list[int]) -> None:
        """The same, together with open files for the other process."""
        with self._sending:
            frame = _LENGTH.pack(len(data) + 1) + kind + data
            sent = socket.send_fds(self.sock, [frame], descriptors)
            self.sock.sendall(frame[sent:])

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next frame; None once the other end is closed."""
        while (frame := self.taken()) is None:
            if not self.fill() or self._broken():
                return None
        return frame

    def taken(self) -> tuple[bytes, bytes] | None:
        """A frame that has come in already, if there is one."""
        if len(self._received) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._received)
        end = _LENGTH.size + length
        if len(self._received) < end:
            return None
        frame = bytes(self._received[_LENGTH.size : end])
        del self._received[:end]
        return frame[:1], frame[1:]

    def fill(self) -> bool:
        """Read what there is, waiting for something; False once either end is closed."""
        try:
            data = self.sock.recv(_CHUNK)
        except OSError:
            return False
        self.feed(data)
        return bool(data)

    def feed(self, data: bytes) -> None:
        """Take in what was read from the socket."""
        self._received += data

    def _broken(self) -> bool:
        """What has come in is no frame of ours."""
        head = self._received[: _LENGTH.size]
        return len(head) == _LENGTH.size and _LENGTH.unpack(head)[0] > _LONGEST

    def end_input(self) -> None:
        """Let `receive` answer None once it has handed out what has come in."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """For both ends. A thread that waits in `receive` is woken, as closing alone would not."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
