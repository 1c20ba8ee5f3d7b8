"""Endpoints at which other processes, such as Spark's executors, reach a store of this process."""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from holdfast.connection import before_close
from holdfast.errors import InvalidSettings
from holdfast.settings import Settings, load
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.access.identity import Wanted
    from holdfast.portable.transport import Endpoint
    from holdfast.server.embedded import EmbeddedServer

TOKEN_REUSE = 3600.0
"""Seconds for which the same identity gets the same token."""


class Endpoints:
    """The server in front of the store, or one in this process, which is started on first use."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._lock = Lock()
        self._server: EmbeddedServer | None = None
        self._opened: dict[Wanted, tuple[Endpoint, float]] = {}

    def open(self, wanted: Wanted) -> Endpoint:
        """Return an endpoint for that identity alone. Raise StaleAttempt where its attempt or
        intent is over.

        It stays the same for some time, so that handles share a connection.
        """
        # Imported lazily: every script imports this module, and few need an endpoint.
        from holdfast.access.issuing import standing
        from holdfast.stores.http import HttpStore

        if not isinstance(self._store, HttpStore):
            self._store.execute(standing(wanted))
        now = time.monotonic()
        with self._lock:
            self._opened = {who: one for who, one in self._opened.items() if one[1] > now}
            if wanted not in self._opened:
                self._opened[wanted] = self._made(wanted), now + TOKEN_REUSE
            return self._opened[wanted][0]

    def _made(self, wanted: Wanted) -> Endpoint:
        from holdfast.portable.transport import Endpoint
        from holdfast.stores.http import HttpStore

        if isinstance(self._store, HttpStore):
            url, token = self._store.url, self._store.token_for(wanted)
            if url == self._settings.workers.server_url.rstrip("/"):
                url = self._settings.api.advertise_url or url
        else:
            server = self._embedded()
            url, token = server.url, server.tokens.give(wanted)
        return Endpoint(url, token, self._settings.core.retry_window.total_seconds())

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def _embedded(self) -> EmbeddedServer:
        if self._server is None:
            from holdfast.server import packages

            packages.check()
            from holdfast.server.embedded import EmbeddedServer

            # Access log lines must not mix with the output of the surrounding program.
            api = msgspec.structs.replace(self._settings.api, access_log=False)
            settings = msgspec.structs.replace(self._settings, api=api)
            try:
                self._server = EmbeddedServer(self._store, settings)
            except InvalidSettings as error:
                raise InvalidSettings(
                    f"the server for executors and jobs cannot start: {error.message}",
                    hint="if another Holdfast server listens there already, set [workers] "
                    "server_url to it",
                ) from None
        return self._server


_OPENING = Lock()
_OPEN: dict[Store, Endpoints] = {}
"""Endpoints of scripts, whose handles must work for as long as the store is open."""


def endpoints(store: Store) -> Endpoints:
    """Return the endpoints of a store that a script has opened, until its connection is closed."""
    with _OPENING:
        if store not in _OPEN:
            _OPEN[store] = Endpoints(load(), store)
            before_close(store, lambda: _OPEN.pop(store).close())
        return _OPEN[store]
