"""Exceptions and tracebacks of user code, without the frames that lead to it."""

from __future__ import annotations

import asyncio
import importlib
import os
import pickle
import traceback
from types import TracebackType

import holdfast
from holdfast.errors import HoldfastError

_OURS = tuple(
    os.path.dirname(module.__file__ or "") + os.sep for module in (holdfast, asyncio, importlib)
)
_LARGEST_PICKLE = 256 * 1024


def trimmed(error: BaseException) -> TracebackType | None:
    """Return the traceback from the first frame of user code on; None if there is none."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith((*_OURS, "<frozen ")):
        frame = frame.tb_next
    return frame


def formatted(error: BaseException) -> str:
    """Return the exception with its trimmed traceback as text."""
    text = "".join(traceback.format_exception(type(error), error, trimmed(error))).rstrip()
    return printable(text)


def printable(text: str) -> str:
    """Escape NUL and invalid Unicode, as in file names, which databases and terminals reject."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def line_in(file: str, error: BaseException) -> int | None:
    """Return the last line of a file in the error's traceback; None if there is none."""
    steps = traceback.walk_tb(error.__traceback__)
    lines = [number for frame, number in steps if frame.f_code.co_filename == file]
    return lines[-1] if lines else None


def one_line(error: BaseException) -> str:
    """Return the error's type and the first line of its message, short enough for a list."""
    text = error.message if isinstance(error, HoldfastError) else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    name = type(error).__name__
    return f"{name}: {printable(lines[0][:500])}" if lines else name


def pickled(error: BaseException) -> bytes | None:
    """Return the pickled exception for another process; None if it does not pickle or is large."""
    try:
        data = pickle.dumps(error)
        pickle.loads(data)  # noqa: S301  (our own; some exceptions pickle and cannot be read back)
    except Exception:
        return None
    return data if len(data) <= _LARGEST_PICKLE else None
