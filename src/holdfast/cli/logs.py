"""Output of a log file: all of it, its last lines, or as it grows."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

BLOCK: Final = 65536
PAUSE: Final = 0.2


def print_log(path: Path, tail: int | None, ended: Callable[[], bool] | None) -> bool:
    """Print the file, or its last lines; with `ended`, follow it until that returns True.

    Return False where there is no file.
    """
    with suppress(KeyboardInterrupt):
        while ended is not None and not path.exists() and not ended():
            time.sleep(PAUSE)
        try:
            file = path.open("rb")
        except (FileNotFoundError, NotADirectoryError):
            return False
        with file:
            try:
                if tail is not None:
                    seek_last_lines(file, tail)
                copy(file, sys.stdout.buffer, ended)
            except BrokenPipeError:
                # The reader has closed the pipe. Nothing must be written at exit either.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def copy(file: BinaryIO, to: BinaryIO, ended: Callable[[], bool] | None) -> None:
    while True:
        # Called before reading, so that everything written before the end is read.
        last = ended is None or ended()
        while block := file.read(BLOCK):
            to.write(block)
        to.flush()
        if last:
            return
        time.sleep(PAUSE)


def seek_last_lines(file: BinaryIO, count: int) -> None:
    """Seek to the beginning of the last lines."""
    position = file.seek(0, os.SEEK_END)
    if count == 0 or position == 0:
        return
    # A line break at the very end ends the last line and starts no other.
    file.seek(position - 1)
    missing = count + (file.read(1) == b"\n")
    while position > 0 and missing > 0:
        size = min(BLOCK, position)
        position -= size
        file.seek(position)
        block = file.read(size)
        at = len(block)
        while missing > 0 and (at := block.rfind(b"\n", 0, at)) >= 0:
            missing -= 1
        if missing == 0:
            file.seek(position + at + 1)
            return
    file.seek(0)
