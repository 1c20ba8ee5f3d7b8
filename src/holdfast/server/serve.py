"""`holdfast server`: the application on a socket, in one process or several."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from ipaddress import ip_address
from multiprocessing import parent_process
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from holdfast.cleanup.requests import forget_requests_periodically
from holdfast.connection import open_store
from holdfast.environment import hide, private_environment
from holdfast.errors import InvalidSettings
from holdfast.monitoring import tracing
from holdfast.monitoring.service_log import log_to_stderr
from holdfast.server import packages
from holdfast.settings import Settings, load, without_password
from holdfast.store import Store
from holdfast.version import __version__

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn import Config

log = logging.getLogger("holdfast.server")

GRACE = 30
"""Seconds that requests in progress have to finish when the server is stopped."""
STORE_RETRY_WINDOW = timedelta(seconds=5)
"""How long a request waits for an unreachable database; then the client is asked to retry."""
ANSWER_TIMEOUT = timedelta(seconds=15)
"""How long a request waits for a database that is reachable and does not answer."""
KEEP_ALIVE = 75
BACKLOG = 2048
WORKER_TIMEOUT = 60
"""Timeout in seconds for a process to start serving, and of its health check."""


def serve(settings: Settings, stopping: Event, say: Callable[[str], None]) -> None:
    """Serve requests until `stopping` is set. `say` is called with the address, once it listens."""
    packages.check()
    from holdfast.server.http.limits import raise_file_limit

    check_tls(settings)
    warn_without_tls(settings)
    _prepare(settings)
    raise_file_limit()
    listener = listen(settings)
    url = url_of(settings, listener)
    database = without_password(settings.database_url)
    log.info("holdfast %s starts: address %s, database %s", __version__, url, database)
    run = _serve_here if settings.api.processes == 1 else _serve_in_processes
    run(settings, listener, stopping, lambda: say(f"listening on {url}"))
    log.info("stopped")


def check_tls(settings: Settings) -> None:
    """Raise InvalidSettings for certificates that cannot be used, before a client connects."""
    certificate, key = tls_files(settings)
    if certificate is None and key is None:
        return
    if certificate is None or key is None:
        raise InvalidSettings(
            "only one of api.tls_certificate and api.tls_key is set", hint="set both, or neither"
        )
    for name, path in (("tls_certificate", certificate), ("tls_key", key)):
        if not os.access(path, os.R_OK):
            raise InvalidSettings(f"api.{name}: {path} is not a readable file")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise InvalidSettings(
            f"the certificate in {certificate} and the key in {key} cannot be used: {error}",
            hint="both must be PEM files, and the key must belong to the first certificate",
        ) from None


def warn_without_tls(settings: Settings) -> None:
    """Log a warning that tokens and values are readable in transit, if others can connect without
    TLS."""
    host = settings.api.host
    if settings.api.tls_certificate or host == "localhost":
        return
    try:
        loopback = ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        log.warning(
            "the server listens on %s without TLS: tokens and values can be read on the "
            "network; set [api] tls_certificate and tls_key, or allow access only through a "
            "proxy with TLS",
            host,
        )


def tls_files(settings: Settings) -> tuple[str | None, str | None]:
    """Return certificate and key; relative paths start from the directory of the settings file."""
    given = (settings.api.tls_certificate, settings.api.tls_key)
    certificate, key = (str(settings.directory / path) if path else None for path in given)
    return certificate, key


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens at the configured address, or raise InvalidSettings."""
    host, port = settings.api.host, settings.api.port
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, number)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        raise InvalidSettings(
            f"the server cannot listen on {host}:{port}: {getattr(error, 'strerror', '') or error}",
            hint="another program may have the port; choose one with --port or [api] port",
        ) from None
    return listener


def url_of(settings: Settings, listener: socket.socket) -> str:
    """Return the address that the socket listens on."""
    scheme = "https" if settings.api.tls_certificate else "http"
    host = settings.api.host
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{listener.getsockname()[1]}"


def configure(app: Any, settings: Settings, **options: Any) -> Config:
    """Return the configuration with which uvicorn serves our application."""
    import uvicorn

    from holdfast.server.http.protocol import LimitedProtocol

    certificate, key = tls_files(settings)
    return uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        timeout_worker_healthcheck=WORKER_TIMEOUT,
        backlog=BACKLOG,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        **options,
    )


def build(settings: Settings) -> FastAPI:
    """Return the application over the configured store, which it closes when it ends."""
    from holdfast.server.app import make_app
    from holdfast.server.tokens import open_tokens

    tracing.configure(settings.tracing)
    store = _open_store(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        gc.freeze()  # long-lived objects need not be traversed by every collection
        forgetting = asyncio.create_task(forget_requests_periodically(store))
        yield
        forgetting.cancel()
        await store.aclose()

    return make_app(store, open_tokens(settings), settings, lifespan)


def build_in_process(private: dict[str, str]) -> FastAPI:
    """Return the application of one process of several, which ends with the one that started it.
    `private` is the part of the environment that it does not start with."""
    hide()
    os.environ.update(private)
    settings = load()
    log_to_stderr(settings.logging)
    Thread(target=_follow_parent, daemon=True).start()
    return build(settings)


def _follow_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _prepare(settings: Settings) -> None:
    """Prepare what all processes need: a store with the right schema, and keys."""
    from holdfast.server.keys import open_keys

    _open_store(settings).close()
    open_keys(settings)


def _open_store(settings: Settings) -> Store:
    return open_store(
        settings,
        retry_window=min(settings.core.retry_window, STORE_RETRY_WINDOW),
        answer_timeout=ANSWER_TIMEOUT,
    )


def _serve_here(
    settings: Settings, listener: socket.socket, stopping: Event, announce: Callable[[], None]
) -> None:
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            announce()

        async def on_tick(self, counter: int) -> bool:
            return await super().on_tick(counter) or stopping.is_set()

    Server(configure(build(settings), settings)).run([listener])


def _serve_in_processes(
    settings: Settings, listener: socket.socket, stopping: Event, announce: Callable[[], None]
) -> None:
    from uvicorn.supervisors import Multiprocess

    class Processes(Multiprocess):
        def init_processes(self) -> None:
            super().init_processes()
            for process in self.processes:
                process.wait_until_ready(WORKER_TIMEOUT, self.should_exit)
            announce()

        def handle_signals(self) -> None:
            if stopping.is_set():
                self.should_exit.set()
            super().handle_signals()

    # Passed on with the application: other processes of the user can read the environment of new
    # processes, and of one that multiprocessing starts beside them.
    private = private_environment()
    app = partial(build_in_process, private)
    for name in private:
        del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="holdfast-metrics-") as directory:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory
        config = configure(app, settings, factory=True, workers=settings.api.processes)
        hangup = signal.getsignal(signal.SIGHUP)
        processes = Processes(config, [listener])
        signal.signal(signal.SIGHUP, hangup)  # uvicorn would restart all processes on it
        processes.run()
