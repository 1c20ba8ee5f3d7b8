"""Output of a log: all of it, its last lines, or as it grows."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Final

from holdfast.errors import NotFound
from holdfast.logs.log import Log

PAUSE: Final = 0.5
"""Seconds between two looks for a log that does not exist yet."""
LATEST: Final = 15.0
"""Seconds after the end of an attempt in which the end of its log has to arrive in storage."""


def print_log(
    find: Callable[[], Log], tail: int | None, ended: Callable[[], bool] | None
) -> Log | None:
    """Print the log, or its last lines; with `ended`, follow it until that returns True.

    Return the log; None if its reader has closed the pipe, and after Ctrl-C. Raise NotFound where
    `find` does.
    """
    try:
        log = _found(find, ended)
        _copy(log, 0 if tail is None else log.tail(tail), ended)
    except KeyboardInterrupt:
        return None
    except BrokenPipeError:
        # Nothing must be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return None
    return log


def _found(find: Callable[[], Log], ended: Callable[[], bool] | None) -> Log:
    while True:
        last = ended is None or ended()
        try:
            return find()
        except NotFound:
            if last:
                raise
        time.sleep(PAUSE)


def _copy(log: Log, offset: int, ended: Callable[[], bool] | None) -> None:
    out = sys.stdout.buffer
    last, given_up = ended is None, 0.0
    while True:
        # Called before reading, so that everything written before the end is read.
        if ended is not None and not last and ended():
            last, given_up = True, time.monotonic() + LATEST
        while (part := log.read(offset)).text:
            out.write(part.text)
            offset = part.next
        out.flush()
        if last and (log.is_complete or time.monotonic() >= given_up):
            return
        time.sleep(log.pause)
