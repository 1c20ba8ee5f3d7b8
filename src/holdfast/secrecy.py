"""Keeping this process's memory, environment and open files from others of the same user."""

from __future__ import annotations

import sys
from typing import Final

PRIVATE: Final = 0o700
"""The mode of a directory that only its owner may enter."""
_PR_SET_DUMPABLE = 4


def hide_this_process() -> None:
    """Let only root read what /proc shows of this process, or trace it. Linux; until the next exec.

    To be called before any child starts: a task runs as the same user.
    """
    if sys.platform == "linux":
        import ctypes  # loaded when needed: most commands do without

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
