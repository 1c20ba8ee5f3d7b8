"""The stores that are configured here, and the person who uses them.

The database library is loaded only when one of these is called: help and completion do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.model.entry import ApiWriter
from holdfast.settings import Settings
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.connection import Connection


def open_store(settings: Settings) -> Store:
    """The configured store. A database that does not answer fails at once: a person waits."""
    from holdfast import connection

    return connection.open_store(settings)


def as_worker(store: Store, settings: Settings) -> Store:
    """The same store, with the values that are in the workers' storage, where that is configured
    here."""
    from holdfast.stores.offload.configuration import Offloading

    return Offloading.of(settings).over(store)


def open_connection(settings: Settings) -> Connection:
    """The same, for writing as programs do."""
    from holdfast.connection import Connection, rules

    return Connection(open_store(settings), rules(settings))


def person() -> ApiWriter:
    """Whoever runs this command, as a writer."""
    from holdfast.access.identity import whoami

    return whoami()
