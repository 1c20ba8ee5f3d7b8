"""Messages between two processes: frames with their length in front, over a stream socket."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from threading import Lock

import msgspec

from holdfast.errors import ValueTooLarge
from holdfast.model.plain_types import base_value

ORDER = b"O"
NOTICE = b"N"
"""Kinds of frames: downward and upward."""

LARGEST_OF_TASK = 64 * 2**20
"""Maximum bytes of a frame between a child and its supervisor, which has many children."""

encode = msgspec.msgpack.Encoder(enc_hook=base_value).encode

_LENGTH = struct.Struct(">I")
_CHUNK = 1 << 16
_LARGEST = 1 << 30


class Channel:
    """One end of a socket pair. Several threads may send; one receives."""

    def __init__(self, sock: socket.socket, largest: int = _LARGEST) -> None:
        self.sock = sock
        self._largest = largest
        self._received = bytearray()
        self._sending = Lock()

    def send(self, kind: bytes, data: bytes = b"") -> None:
        """Send a frame: its kind, in one byte, and its content. Raise OSError where the other end
        is closed, and ValueTooLarge where it would not accept the frame."""
        frame = self._framed(kind, data)
        with self._sending:
            self.sock.sendall(frame)

    def send_with(self, kind: bytes, data: bytes, descriptors: list[int]) -> None:
        """Send a frame together with open files for the other process. Raise as `send` does."""
        frame = self._framed(kind, data)
        with self._sending:
            sent = socket.send_fds(self.sock, [frame], descriptors)
            self.sock.sendall(frame[sent:])

    def _framed(self, kind: bytes, data: bytes) -> bytes:
        length = len(data) + 1
        if length > self._largest:
            raise ValueTooLarge(
                f"a message between a task and its supervisor has {length:,} bytes; the limit is "
                f"{self._largest:,}",
                hint="write large data to files or an object store and store the path, or read "
                "and write fewer entries at once",
            )
        return _LENGTH.pack(length) + kind + data

    def receive(self) -> tuple[bytes, bytes] | None:
        """Return the next frame; None once the other end is closed."""
        while (frame := self.taken()) is None:
            if not self.fill() or self._broken():
                return None
        return frame

    def taken(self) -> tuple[bytes, bytes] | None:
        """Return a frame that has been received already, or None."""
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
        """Read the available bytes, waiting for some; return False once either end is closed."""
        try:
            data = self.sock.recv(_CHUNK)
        except OSError:
            return False
        self.feed(data)
        return bool(data)

    def feed(self, data: bytes) -> None:
        """Append bytes that were read from the socket."""
        self._received += data

    def _broken(self) -> bool:
        """Return whether the received bytes are not a valid frame."""
        head = self._received[: _LENGTH.size]
        return len(head) == _LENGTH.size and _LENGTH.unpack(head)[0] > self._largest

    def end_input(self) -> None:
        """Make `receive` return None once it has returned what has been received."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """Close the socket for both ends. This wakes a thread that waits in `receive`, as closing
        alone would not."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
