"""Look-up of a pool by name."""

from __future__ import annotations

from holdfast import commands as c
from holdfast.model.pool import Pool
from holdfast.store import Steps
from holdfast.stores import refusals


def get_pool(name: str) -> Steps[Pool]:
    """Return a pool. Raise NotFound where there is none of that name."""
    pools: tuple[Pool, ...] = yield c.ListPools()
    for pool in pools:
        if pool.name == name:
            return pool
    raise refusals.unknown_pool(name, [pool.name for pool in pools])
