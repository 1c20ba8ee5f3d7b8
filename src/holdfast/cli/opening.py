"""Opening of the configured store, and the person who uses it.

The database library is loaded only when one of these is called: help and completion do without it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from holdfast.model.entry import ApiWriter
from holdfast.settings import Settings
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.connection import Connection


RESTART: Final = timedelta(seconds=3)
"""How long a command waits for a server that is restarting."""


def open_store(settings: Settings, *, patient: bool = False) -> Store:
    """Return the configured store. An unreachable database is an error at once, as a person waits,
    and an unreachable server after the time of a restart. A `patient` command retries longer."""
    from holdfast import connection

    window = settings.core.retry_window
    if not patient:
        window = min(window, RESTART) if settings.server_url else timedelta(0)
    return connection.open_configured(settings, retry_window=window)


def as_worker(store: Store, settings: Settings) -> Store:
    """Return the store with offloaded values resolved, if a worker-side backend is configured."""
    from holdfast.stores.offload.configuration import Offloading

    return Offloading.of(settings).over(store)


def open_connection(settings: Settings) -> Connection:
    """Return a connection to the configured store, for writing as programs do."""
    from holdfast.connection import Connection, rules

    return Connection(open_store(settings), rules(settings))


def person() -> ApiWriter:
    """Return the person who runs this command, as a writer."""
    from holdfast.access.identity import whoami

    return whoami()
