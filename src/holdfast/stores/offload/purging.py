"""Purging: deletion of offloaded objects that nothing refers to, from the purge queue."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple
from uuid import uuid4

from holdfast import commands as c
from holdfast.errors import HoldfastError
from holdfast.portable.identifier import one_line
from holdfast.stores.offload.storage import Steps, Storage

LEASE: Final = timedelta(minutes=5)
WORK: Final = 60.0
"""Seconds after which no further deletion is started; one under way may finish."""
BATCH: Final = 1000

log = logging.getLogger("holdfast")


class Purged(NamedTuple):
    """Number of objects deleted, number that failed, and whether more may be due."""

    gone: int
    failed: int
    more: bool


class Purging:
    """Takes objects from the purge queue, and deletes them from the storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._reported: set[str] = set()
        """Reasons for failed deletions, each of which is logged once."""

    def tidy(self, part: c.Part, whole: bool = False) -> Steps[None]:
        """Delete the objects that a change has left without a reference; `whole` after a change
        that has emptied the part. Failures are logged, and stay in the queue."""
        try:
            while (done := (yield from self.purge(part, BATCH, whole))).more and not done.failed:
                pass
        except HoldfastError as error:
            log.warning("objects of %s are left for a later purge: %s", part.scope, error)

    def purge(
        self, part: c.Part, limit: int, whole: bool = False, retry: bool = False
    ) -> Steps[Purged]:
        """Delete up to `limit` due objects of the part; with `retry`, also those whose deletion has
        just failed. Failures stay in the queue."""
        taker = uuid4().hex
        whole = whole and self._storage.clears
        taken = yield c.TakePurges(limit, LEASE, taker, part, whole, retry)
        if not taken.purges:
            return Purged(0, 0, taken.due == limit)
        purges = [purge for purge in taken.purges if purge.key]
        try:
            tried = yield from self._remove(part, purges, taken.barrier is not None)
        except HoldfastError as error:
            tried = {purge.id: str(error) for purge in purges}
        gone = tuple(id for id, error in tried.items() if not error)
        failed = tuple((id, error) for id, error in tried.items() if error)
        barriers = [purge.id for purge in taken.purges if not purge.key]
        if taken.barrier is not None:
            barriers.append(taken.barrier)
        yield c.FinishPurges(taker, (*gone, *barriers), failed)
        for reason in {reason for _, reason in failed} - self._reported:
            self._reported.add(reason)
            log.warning("%d objects could not be deleted yet: %s", len(failed), one_line(reason))
        return Purged(len(gone), len(failed), taken.due == limit)

    def _remove(
        self, part: c.Part, purges: Sequence[c.Purge], whole: bool
    ) -> Steps[dict[int, str]]:
        """Delete the objects of these purges, or of the whole part at once."""
        if whole and (yield from self._storage.clear(part)):
            return dict.fromkeys((purge.id for purge in purges), "")
        return (yield from self._storage.remove(purges, WORK))
