"""Carrying a plan out, batch by batch, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast import commands as c
from holdfast.cleanup.plan import PAGE, CleanupPlan
from holdfast.model.entry import Expired


def delete(plan: CleanupPlan, batch_size: int = 0) -> Iterator[int]:
    """Delete what the plan names; yields how many rows each batch took. 0: one single batch.

    Rows that a writer holds are passed over at first, and waited for once all others are gone.
    """
    if not batch_size:
        yield plan.store.execute(c.DeleteExpired(plan.cutoff))
        return
    for skip_held in (True, False):
        batch = c.DeleteExpired(plan.cutoff, batch_size, skip_held)
        while gone := plan.store.execute(batch):
            yield gone


def take(plan: CleanupPlan, batch_size: int = 0) -> Iterator[Expired]:
    """Delete what the plan names; yields each row that went."""
    batch = c.TakeExpired(plan.cutoff, batch_size or PAGE)
    while rows := plan.store.execute(batch):
        yield from rows
