"""Exceptions of a user's code, without the frames that only lead there."""

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
    """The traceback from the first frame of the user's on; None where there is none."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith((*_OURS, "<frozen ")):
        frame = frame.tb_next
    return frame


def formatted(error: BaseException) -> str:
    """The traceback as text."""
    text = "".join(traceback.format_exception(type(error), error, trimmed(error))).rstrip()
    return printable(text)


def printable(text: str) -> str:
    """What any database and terminal takes: file names in messages may be no Unicode."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def line_in(file: str, error: BaseException) -> int | None:
    """The last line of a file that the error came through."""
    steps = traceback.walk_tb(error.__traceback__)
    lines = [number for frame, number in steps if frame.f_code.co_filename == file]
    return lines[-1] if lines else None


def one_line(error: BaseException) -> str:
    """The type and message, as short as a list shows it."""
    text = error.message if isinstance(error, HoldfastError) else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    name = type(error).__name__
    return f"{name}: {printable(lines[0][:500])}" if lines else name


def pickled(error: BaseException) -> bytes | None:
    """The exception for another process; None where it does not pickle."""
    try:
        data = pickle.dumps(error)
        pickle.loads(data)  # noqa: S301  (our own; some exceptions pickle and cannot be read back)
    except Exception:
        return None
    return data if len(data) <= _LARGEST_PICKLE else None
