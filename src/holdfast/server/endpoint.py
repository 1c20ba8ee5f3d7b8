"""Where other processes, such as Spark's executors, reach a store that this process has."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from holdfast.settings import Settings, load
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.authority import Wanted
    from holdfast.server.embedded import EmbeddedServer
    from holdfast.transport import Endpoint


class Endpoints:
    """The server that the store is behind, or one in this process as soon as it is asked for."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._lock = Lock()
        self._server: EmbeddedServer | None = None

    def open(self, wanted: Wanted) -> Endpoint:
        """For them alone. StaleAttempt where their attempt or intent is over."""
        # Loaded when needed: every script imports this module, and few ask for an endpoint.
        from holdfast.authority import standing
        from holdfast.stores.http import HttpStore
        from holdfast.transport import Endpoint

        if isinstance(self._store, HttpStore):
            url, token = self._store.url, self._store.token_for(wanted)
        else:
            self._store.execute(standing(wanted))
            server = self._embedded()
            url, token = server.url, server.tokens.give(wanted)
        window = self._settings.core.retry_window.total_seconds()
        return Endpoint(self._settings.api.advertise_url or url, token, window)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def _embedded(self) -> EmbeddedServer:
        with self._lock:
            if self._server is None:
                from holdfast.server import packages

                packages.check()
                from holdfast.server.embedded import EmbeddedServer

                # Its requests are a program's own, of which nobody keeps a log.
                api = msgspec.structs.replace(self._settings.api, access_log=False)
                settings = msgspec.structs.replace(self._settings, api=api)
                self._server = EmbeddedServer(self._store, settings)
            return self._server


_OPEN: dict[Store, Endpoints] = {}
"""Those of scripts, whose handles must work for as long as the store is open."""


def endpoints(store: Store) -> Endpoints:
    """Those of a store that a script has opened, until the store is closed."""
    if store not in _OPEN:
        _OPEN.setdefault(store, Endpoints(load(), store))
    return _OPEN[store]


def close(store: Store) -> None:
    """To be called before the store itself is closed."""
    if (opened := _OPEN.pop(store, None)) is not None:
        opened.close()
