"""Output of a log: all of it, its last lines, or as it grows."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from holdfast.logs.log import Log


PAUSE: Final = 0.2
"""Seconds between two looks for a log that does not exist yet."""


def print_log(
    find: Callable[[], Log | None], tail: int | None, ended: Callable[[], bool] | None
) -> bool:
    """Print the log, or its last lines; with `ended`, follow it until that returns True.

    Return False where `find` returns no log.
    """
    with suppress(KeyboardInterrupt):
        while (log := find()) is None:
            if ended is None or ended():
                return False
            time.sleep(PAUSE)
        try:
            _copy(log, 0 if tail is None else log.tail(tail), ended)
        except BrokenPipeError:
            # The reader has closed the pipe. Nothing must be written at exit either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def _copy(log: Log, offset: int, ended: Callable[[], bool] | None) -> None:
    out = sys.stdout.buffer
    while True:
        # Called before reading, so that everything written before the end is read.
        last = ended is None or ended()
        while (part := log.read(offset)).text:
            out.write(part.text)
            offset = part.next
        out.flush()
        if last:
            return
        time.sleep(log.pause)
