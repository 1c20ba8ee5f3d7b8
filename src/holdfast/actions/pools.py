"""Look-up of a pool by name."""

from __future__ import annotations

from holdfast import commands as c
from holdfast.errors import NotFound
from holdfast.model.pool import Pool
from holdfast.store import Steps


def get_pool(name: str) -> Steps[Pool]:
    """Return a pool. Raise NotFound where there is none of that name."""
    pools: tuple[Pool, ...] = yield c.ListPools()
    for pool in pools:
        if pool.name == name:
            return pool
    known = ", ".join(pool.name for pool in pools[:20])
    raise NotFound(f"there is no pool `{name}`", hint=f"there are: {known}")
