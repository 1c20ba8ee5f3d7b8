"""Deletion of orphans through the purge queue, which checks again that nothing refers to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from holdfast import commands as c
from holdfast.model.scope import StoreScope
from holdfast.model.value import as_reference
from holdfast.stores.offload.objects.backend import ObjectStoreBackend
from holdfast.stores.offload.store import OffloadStore

BATCH: Final = 1000


class Deletion(msgspec.Struct):
    """The result of a deletion of orphans."""

    queued: int = 0
    deleted: int = 0
    """Deleted objects, including others that were in the queue."""
    failed: int = 0
    """Objects that remain in the queue, and are retried."""
    unclear: int = 0
    """Objects that are left alone because their owner cannot be determined."""


def delete(
    orphans: Iterable[str],
    backend: ObjectStoreBackend,
    store: OffloadStore,
    scope: StoreScope | None = None,
) -> Deletion:
    """Delete those objects, of all scopes or of one, that are still orphans."""
    done = Deletion()
    waiting = _owned(orphans, backend, done)
    while batch := tuple(islice(waiting, BATCH)):
        store.execute(c.QueueObjects(batch))
        done.queued += len(batch)
        _drain(store, done, scope)
    return done


def _owned(
    orphans: Iterable[str], backend: ObjectStoreBackend, done: Deletion
) -> Iterator[tuple[StoreScope, str, str]]:
    for reference in orphans:
        whose = backend.whose(reference)
        if whose is None:
            done.unclear += 1
        else:
            yield (*whose, as_reference(reference))


def _drain(store: OffloadStore, done: Deletion, scope: StoreScope | None) -> None:
    """Purge until the queue has no more that is due."""
    more = True
    while more:
        gone, failed, more = store.purge(scope=scope)
        done.deleted += gone
        done.failed += failed
