"""Reading of a log by offset: all of it, its last lines, or as it grows.

A log is a sequence of bytes that is stored in pieces. A piece is named by the offset of its first
byte. Pieces in the middle are deleted when the log is too large, so its beginning and its end
remain, and an offset means the same for every reader at any time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Final, NamedTuple

BLOCK: Final = 2**20
"""Bytes that are read at once."""
LONGEST_TAIL: Final = 16 * BLOCK
"""Bytes at the end of a log that may be among its last lines."""


class Piece(NamedTuple):
    """A stored part of a log."""

    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


class Part(NamedTuple):
    """What a reader gets at once."""

    text: bytes
    """Begins with a line about what was left out, if anything was; empty at the end of the log."""
    next: int
    """The offset to read from next."""


class Log(ABC):
    """A log, which may still grow."""

    pause: ClassVar[float]
    """Seconds between two reads of one who follows the log."""
    is_complete: bool = True
    """Whether everything that was written up to the last read could be read then. False while the
    log, or its end, is on its way to this source."""

    @abstractmethod
    def read(self, offset: int) -> Part:
        """Return some of the log, from `offset` on."""

    @abstractmethod
    def tail(self, lines: int) -> int:
        """Return the offset at which the last lines begin; where they are very long, of fewer."""


class PiecedLog(Log):
    """A log whose pieces can be listed and read."""

    _pieces: tuple[Piece, ...] = ()
    """As of the last listing."""

    @abstractmethod
    def list(self) -> tuple[Piece, ...]:
        """Return the pieces in order; none where there is no log."""

    @abstractmethod
    def fetch(self, piece: Piece, at: int, size: int) -> bytes | None:
        """Return up to `size` bytes of a piece; None if the piece has been deleted."""

    def exists(self) -> bool:
        self._pieces = self.list()
        return bool(self._pieces)

    def read(self, offset: int) -> Part:
        start, data = self.data(offset, BLOCK)
        missing = start - offset
        note = f"[{missing:,} bytes were left out here]\n".encode() if missing else b""
        return Part(note + data, start + len(data))

    def data(self, offset: int, size: int) -> tuple[int, bytes]:
        """Return the next bytes of one piece, and their offset, which is larger than `offset` where
        bytes were left out; no bytes at the end of the log."""
        while (piece := self._find(offset)) is not None:
            at = max(offset - piece.start, 0)
            found = self.fetch(piece, at, size)
            if found is not None:
                return piece.start + at, found
            self._pieces = ()
        return offset, b""

    def tail(self, lines: int) -> int:
        self._pieces = self.list()
        end = self._pieces[-1].end if self._pieces else 0
        missing, left = lines, LONGEST_TAIL
        for piece in reversed(self._pieces if lines else ()):
            position = piece.size
            while position > 0:
                size = min(BLOCK, position)
                position -= size
                left -= size
                block = self.fetch(piece, position, size)
                if block is None:
                    return piece.end
                # A line break at the very end ends the last line and starts no other.
                at = size - (piece.start + position + size == end)
                found = block.count(b"\n", 0, at)
                if found >= missing:
                    for _ in range(missing):
                        at = block.rfind(b"\n", 0, at)
                    return piece.start + position + at + 1
                missing -= found
                if left <= 0:  # from the beginning of a line, if there is one
                    first = position + block.find(b"\n", 0, at) + 1 if position else 0
                    return piece.start + first
        return self._pieces[0].start if lines and self._pieces else end

    def _find(self, offset: int) -> Piece | None:
        """Return the first piece that has something at `offset` or after it."""
        found = self._known(offset)
        if found is None:
            self._pieces = self.list()
            found = self._known(offset)
        if found is not None and found.start > offset:
            # What is missing may have been written while the pieces were listed. It is listed now,
            # because a piece is created after the one before it has got its last byte.
            self._pieces = self.list()
            found = self._known(offset)
        return found

    def _known(self, offset: int) -> Piece | None:
        return next((piece for piece in self._pieces if piece.end > offset), None)
