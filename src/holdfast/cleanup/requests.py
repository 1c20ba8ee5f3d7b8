"""Cleanup of the stored requests of clients that will not be retried."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Final

from holdfast import commands as c
from holdfast.errors import HoldfastError
from holdfast.store import Steps, Store, arun, run

log = logging.getLogger("holdfast.cleanup")

SILENCE: Final = timedelta(days=1)
"""A client that has been silent for so long does not retry its last request."""
INTERVAL: Final = timedelta(hours=1)


def forget_requests(store: Store) -> int:
    """Delete the requests of silent clients; return how many."""
    return run(store, _forget())


async def forget_requests_periodically(store: Store) -> None:
    """Delete requests of silent clients at each `INTERVAL`, for a server without a scheduler."""
    while True:
        try:
            await arun(store, _forget())
        except HoldfastError as error:
            log.warning("cleanup failed: %s", error.message)
        await asyncio.sleep(INTERVAL.total_seconds())


def _forget() -> Steps[int]:
    now = yield c.Now()
    gone: int = yield c.ForgetRequests(now - SILENCE)
    return gone
