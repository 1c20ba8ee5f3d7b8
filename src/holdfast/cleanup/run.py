"""Execution of a cleanup plan in batches, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast import commands as c
from holdfast.cleanup.plan import PAGE, CleanupPlan
from holdfast.model.entry import Expired


def delete(plan: CleanupPlan, batch_size: int = 0) -> Iterator[int]:
    """Delete the rows of the plan; yield how many rows each batch deleted. 0: one single batch.

    Rows that a writer has locked are skipped at first, and waited for once all others are gone.
    """
    if not batch_size:
        yield plan.store.execute(c.DeleteExpired(plan.cutoff))
        return
    for skip_held in (True, False):
        batch = c.DeleteExpired(plan.cutoff, batch_size, skip_held)
        while gone := plan.store.execute(batch):
            yield gone


def take(plan: CleanupPlan, batch_size: int = 0) -> Iterator[Expired]:
    """Delete the rows of the plan; yield each deleted row."""
    batch = c.TakeExpired(plan.cutoff, batch_size or PAGE)
    while rows := plan.store.execute(batch):
        yield from rows
