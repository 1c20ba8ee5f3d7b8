"""The latest requests of clients, kept until nobody will send them again."""

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
"""A client that has been silent for so long does not send its last request again."""
INTERVAL: Final = timedelta(hours=1)


def forget_requests(store: Store) -> int:
    """Forget the silent clients; answers how many."""
    return run(store, _forget())


async def forget_now_and_then(store: Store) -> None:
    """The same for as long as a server runs, beside which there may be no scheduler."""
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
