"""Log of a service on standard error: the same format for every line of every process."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.errors import HoldfastError
from holdfast.portable.identifier import escaped_lines
from holdfast.settings import Logging

log = logging.getLogger("holdfast")

FIELDS = "fields"
"""The attribute of a record with further fields, which `json` shows: `extra=fields(…)`."""


def fields(**given: Any) -> dict[str, Any]:
    """Return the `extra` of a log call, for fields beside the message."""
    return {FIELDS: given}


def log_to_stderr(settings: Logging) -> None:
    """Write the log of this process to standard error, from now on, in the configured format.

    Warnings of Python and exceptions that nothing has caught are part of it.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if settings.format == "json" else _Text())
    logging.basicConfig(handlers=[handler], force=True)
    log.setLevel(settings.level.upper())
    logging.captureWarnings(True)
    # Lines have neither of these, and finding them takes longer than the rest.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None
    sys.excepthook = lambda *error: log.critical("this process failed", exc_info=error)
    threading.excepthook = lambda thread: log.critical("a thread failed", exc_info=thread.exc_value)


@contextmanager
def logging_to_stderr(settings: Logging) -> Iterator[None]:
    """Log to standard error inside, and so any error that is raised; it ends the process."""
    log_to_stderr(settings)
    try:
        yield
    except HoldfastError as error:
        log.critical("%s", "; hint: ".join(filter(None, (error.message, error.hint))))
        sys.exit(error.exit_status)
    except Exception:
        log.critical("this process failed", exc_info=True)
        sys.exit(1)


_encode = msgspec.json.Encoder().encode


class _Text(logging.Formatter):
    """A message of several lines, such as a traceback, has the time in each. Control characters,
    which code of others may have put into it, are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_time(record)} {record.levelname} {record.name}: "
        text = record.getMessage()
        if record.exc_info:
            text += f"\n{_traceback(record)}"
        return "\n".join([head + line for line in escaped_lines(text).split("\n")])


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["traceback"] = _traceback(record)
        return _encode(line).decode()


def _time(record: logging.LogRecord) -> str:
    return f"{_second(int(record.created))}.{int(record.created % 1 * 1000):03}Z"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _traceback(record: logging.LogRecord) -> str:
    assert record.exc_info
    return "".join(traceback.format_exception(*record.exc_info)).rstrip()
