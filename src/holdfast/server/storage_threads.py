"""Threads for log files, object storage and disks.

Commands of SQLite and MySQL run in the threads of the event loop: a storage that hangs must not
take those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from holdfast.server.disk import free_space
from holdfast.settings import Settings

P = ParamSpec("P")
A = TypeVar("A")

_logs = ThreadPoolExecutor(8, "logs")
_log_files = ThreadPoolExecutor(4, "log-files")


async def in_log_thread(function: Callable[P, A], *args: P.args, **kwargs: P.kwargs) -> A:
    """Call a function that reads or deletes logs."""
    call = partial(function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_logs, call)


async def in_log_file_thread(function: Callable[P, A], *args: P.args, **kwargs: P.kwargs) -> A:
    """Call a function that reads logs of this machine, whether or not object storage hangs."""
    call = partial(function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_log_files, call)


class DiskSpace:
    """The free space of a server's disks, measured by one thread: a disk that hangs takes no
    other."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, "disk")
        self._measured: asyncio.Future[dict[str, int]] | None = None

    async def measure(self) -> dict[str, int]:
        """Return the free bytes by directory, together with other callers that wait for them."""
        if self._measured is None or self._measured.done():
            loop = asyncio.get_running_loop()
            self._measured = loop.run_in_executor(self._thread, free_space, self._settings)
        return await asyncio.shield(self._measured)
