"""Interface of an offloading store, without its dependencies."""

from __future__ import annotations

from abc import abstractmethod

from holdfast.model.entry import TaskWriter
from holdfast.store import Store, WrapperStore


class ReferenceStore(WrapperStore):
    """Offloads values of any size, and stores references to them in the wrapped store."""

    @abstractmethod
    def before_success(self, writer: TaskWriter) -> None:
        """Send the staged values that this store has held back: the attempt is about to succeed,
        and another process is going to record that."""


def entries_of(store: Store) -> Store:
    """Return the store that has the entries themselves, with references for offloaded values."""
    return store.inner if isinstance(store, ReferenceStore) else store
