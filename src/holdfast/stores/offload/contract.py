"""What is known of a store whose values are elsewhere, by those who need no more."""

from __future__ import annotations

from abc import abstractmethod

from holdfast.model.entry import TaskWriter
from holdfast.store import Store, WrapperStore


class ReferenceStore(WrapperStore):
    """Keeps values of any size elsewhere, and references to them in the store that it wraps."""

    @abstractmethod
    def before_success(self, writer: TaskWriter) -> None:
        """Send what the attempt has staged, and this store holds back until then: the attempt is
        about to succeed, and another process is going to record it."""


def entries_of(store: Store) -> Store:
    """Return the store that has the entries themselves, with references for values elsewhere."""
    return store.inner if isinstance(store, ReferenceStore) else store
