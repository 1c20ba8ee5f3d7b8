"""Status of the server: health checks, metrics and the OpenAPI description."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from math import inf
from typing import Any, Final, Literal, cast

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field
from starlette.responses import Response

from holdfast.commands import (
    Command,
    CountPurges,
    GetActivity,
    ListPools,
    ListServices,
    Now,
    SumFigures,
    UnfinishedRuns,
)
from holdfast.errors import HoldfastError, NotSupported
from holdfast.model.service import Service, ServiceKind
from holdfast.server import metrics
from holdfast.server.disk import LEAST_FREE
from holdfast.server.http.error_responses import MEDIA_TYPE
from holdfast.server.http.request import store_of
from holdfast.server.newest_loads import newest_loads
from holdfast.server.storage_threads import DiskSpace
from holdfast.store import Store, arun
from holdfast.version import __version__

STORE_TIMEOUT = 2.0
"""Seconds that `/health` waits for the store."""
FRESH = 5.0
"""Seconds for which `/metrics` caches the figures of the store."""
RENDERED = 1.0
"""Seconds for which `/metrics` caches the figures of the server."""

log = logging.getLogger("holdfast.server")
router = APIRouter(tags=["Server"], generate_unique_id_function=lambda route: route.name)


class Part(BaseModel):
    """The status of something that the server needs."""

    status: Literal["healthy", "unhealthy"]


class Disk(Part):
    """Free space of the directory `core.home` and of an SQLite database."""

    free_bytes: dict[str, int] = Field(description="By directory: `home` and `database`.")


class ServiceHealth(BaseModel):
    """The status of the schedulers, or of the triggerers."""

    status: Literal["healthy", "unhealthy", "absent"] = Field(
        description="`healthy`: one is alive. `unhealthy`: one ended without stopping cleanly, or "
        "hangs, and none is alive. `absent`: none was started, or all were stopped cleanly."
    )
    latest_heartbeat: datetime | None = None


class Liveness(BaseModel):
    """The server runs."""

    status: Literal["alive"]
    version: str


class Health(BaseModel):
    """The status of the server, and of the services that use the same database."""

    status: Literal["ready", "not_ready"] = Field(
        description="`ready`: the server can answer requests. Schedulers and triggerers do not "
        "change it."
    )
    version: str
    why: str | None = Field(None, description="Why the server is not ready.")
    database: Part
    disk: Disk
    scheduler: ServiceHealth | None = Field(
        None, description="Missing while the database does not answer."
    )
    triggerer: ServiceHealth | None = None


_COUNTED: Final[Mapping[Command[Any], Callable[[Any], bytes]]] = {
    CountPurges(): metrics.of_queue,
    UnfinishedRuns(): metrics.of_runs,
    GetActivity(): metrics.of_activity,
    ListPools(): metrics.of_pools,
    ListServices(): metrics.of_services,
    SumFigures(): metrics.of_figures,
}
"""The commands whose answers are metrics, and how they are shown."""


class MetricsCache:
    """Figures in Prometheus' format. They are available without a token to every client that
    reaches the server, so they are rendered every `RENDERED` seconds at most, and those that the
    database has to count every `FRESH` seconds."""

    def __init__(self, store: Store, disks: DiskSpace) -> None:
        self._store = store
        self._disks = disks
        self._lock = asyncio.Lock()
        self._read_at = -inf
        self._figures = b""
        self._rendered_at = -inf
        self._rendered = b""

    def of_server(self) -> bytes:
        """Return the figures that the server has counted itself."""
        if time.monotonic() - self._rendered_at >= RENDERED:
            self._rendered = metrics.exposition()
            self._rendered_at = time.monotonic()
        return self._rendered

    async def of_store(self) -> bytes:
        """Return the figures of the store, without those that are unavailable."""
        async with self._lock:
            if time.monotonic() - self._read_at >= FRESH:
                self._figures = b"".join(await asyncio.gather(self._measure(), self._count()))
                self._read_at = time.monotonic()
            return self._figures

    async def _measure(self) -> bytes:
        try:
            async with asyncio.timeout(STORE_TIMEOUT):
                return metrics.of_disks(await self._disks.measure())
        except TimeoutError:
            log.warning("the metrics have no free space: the disk does not respond")
            return b""

    async def _count(self) -> bytes:
        figures = b""
        try:
            async with asyncio.timeout(STORE_TIMEOUT):
                for command, expose in _COUNTED.items():
                    if self._store.supports(type(command)):
                        figures += expose(await self._store.aexecute(command))
                with suppress(NotSupported):
                    figures += metrics.of_loads(await arun(self._store, newest_loads()))
        except (HoldfastError, TimeoutError) as error:
            log.warning("the metrics of the store are incomplete: %s", error)
        return figures


@router.get("/health", response_model=Health, responses={503: {"model": Health}})
async def get_health(request: Request) -> Response:
    """Report whether the server can answer requests: 200 if its database answers and disks have
    space, else 503. The status of schedulers and triggerers is reported, too."""
    store = store_of(request)
    question: Command[Any] = ListServices() if store.supports(ListServices) else Now()
    asked = asyncio.ensure_future(store.aexecute(question))
    measured = asyncio.ensure_future(_disks_of(request).measure())
    # Not cancelled on timeout: the driver would wait for the database once more.
    await asyncio.wait({asked, measured}, timeout=STORE_TIMEOUT)
    for late in (asked, measured):
        # Retrieved in any case: asyncio would log the traceback of an error that comes later.
        late.add_done_callback(lambda late: late.cancelled() or late.exception())
    body: dict[str, Any] = {"status": "ready", "version": __version__}
    whys = []
    error = asked.exception() if asked.done() else "the database does not answer"
    if error is None:
        services = asked.result() if store.supports(ListServices) else ()
        body |= {kind: _of_services(kind, services) for kind in ServiceKind}
    else:
        log.warning("not ready: %s", error)
        whys.append("the database does not answer")
    body["database"] = {"status": "unhealthy" if whys else "healthy"}
    free = measured.result() if measured.done() and not measured.exception() else None
    full = free is None or any(size < LEAST_FREE for size in free.values())
    if full:
        whys.append("the disk is full" if free is not None else "the disk does not respond")
        log.warning("not ready: %s: %s", whys[-1], free)
    body["disk"] = {"status": "unhealthy" if full else "healthy", "free_bytes": free or {}}
    if whys:
        body |= {"status": "not_ready", "why": "; ".join(whys)}
    return _json(body, 503 if whys else 200)


def _disks_of(request: Request) -> DiskSpace:
    return cast(DiskSpace, request.app.state.disks)


def _of_services(kind: ServiceKind, services: Iterable[Service]) -> dict[str, Any]:
    latest = next((one for one in services if one.kind is kind), None)
    if latest is None:
        return {"status": "absent"}
    status = "healthy" if latest.alive else "unhealthy"
    return {"status": status, "latest_heartbeat": latest.seen_at}


@router.get("/health/live", response_model=Liveness)
async def get_liveness() -> Response:
    """Report that the server runs."""
    return _json({"status": "alive", "version": __version__}, 200)


@router.get("/metrics", response_class=PlainTextResponse)
async def get_metrics(request: Request) -> Response:
    """Return metrics in the format of Prometheus."""
    cached: MetricsCache = request.app.state.metrics
    text = cached.of_server() + await cached.of_store()
    return Response(text, media_type=metrics.CONTENT_TYPE)


@router.get("/openapi.json", include_in_schema=False)
async def get_description(request: Request) -> Response:
    return Response(await request.app.openapi_json(), media_type=MEDIA_TYPE)


def _json(body: dict[str, Any], status: int) -> Response:
    return Response(msgspec.json.encode(body), status, media_type=MEDIA_TYPE)
