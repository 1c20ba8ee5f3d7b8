"""A server inside another process: the same application in a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Thread

import msgspec
import uvicorn
from fastapi import FastAPI

from holdfast.server.app import make_app
from holdfast.server.serve import check_tls, configure, listen, url_of, warn_without_tls
from holdfast.server.tokens import open_tokens
from holdfast.settings import Settings
from holdfast.store import Store


class EmbeddedServer:
    """Serves at `url` until it is closed. The store belongs to the caller, and stays open.

    It listens on loopback, or at the address of [api] if an advertised URL is configured. `tokens`
    are those of the settings, which other servers of the same home accept.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        if settings.api.advertise_url:
            check_tls(settings)
            warn_without_tls(settings)
        else:
            api = msgspec.structs.replace(
                settings.api, host="127.0.0.1", port=0, tls_certificate="", tls_key=""
            )
            settings = msgspec.structs.replace(settings, api=api)
        self.tokens = open_tokens(settings)
        listener = listen(settings)
        self.url = settings.api.advertise_url or url_of(settings, listener)
        app = make_app(store, self.tokens, settings, _lifespan)
        self._server = uvicorn.Server(configure(app, settings))
        self._thread = Thread(target=self._server.run, args=([listener],), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving; requests in progress are finished first."""
        self._server.should_exit = True
        self._thread.join()


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Close the store's connections that belong to this event loop at the end."""
    yield
    await app.state.store.aclose()
