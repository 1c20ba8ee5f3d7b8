"""Metrics for Prometheus. With several processes, each counts into files of a directory that they
share, and any of them reports the sum."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from holdfast.commands import PurgeQueue
from holdfast.model.load_record import micros
from holdfast.server.newest_loads import NewestLoad

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the directory. It must be set before this module is imported."""
CONTENT_TYPE = CONTENT_TYPE_LATEST

LONGEST_LABEL = 200
"""Maximum characters of a label's value."""
_TIMES = frozenset({"timestamp", "timestamp_ntz", "date"})
_METHODS = frozenset({"GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_REGISTRY = CollectorRegistry()
_REQUESTS = Counter(
    "holdfast_requests",
    "Number of answered requests.",
    ["method", "route", "status"],
    registry=_REGISTRY,
)
_SECONDS = Histogram(
    "holdfast_request_seconds",
    "Duration of requests in seconds.",
    ["method", "route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=_REGISTRY,
)
_COMMANDS = Counter(
    "holdfast_commands",
    "Number of commands sent to the store.",
    ["command", "outcome"],
    registry=_REGISTRY,
)
under_way = Gauge(
    "holdfast_requests_under_way",
    "Number of requests in progress.",
    multiprocess_mode="livesum",
    registry=_REGISTRY,
)
refused_tokens = Counter(
    "holdfast_refused_tokens", "Number of requests whose token was refused.", registry=_REGISTRY
)


def count_request(method: str, route: str, status: int, seconds: float) -> None:
    method = method if method in _METHODS else "other"
    _requests(method, route, status).inc()
    _seconds(method, route).observe(seconds)


def count_command(name: str, outcome: str) -> None:
    _commands(name, outcome).inc()


def exposition() -> bytes:
    """Return all metrics in Prometheus' format."""
    directory = os.environ.get(DIRECTORY)
    if directory is None:
        return generate_latest(_REGISTRY)
    _forget_dead_processes(Path(directory))
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


class _Stored:
    """A collector of figures that come from the store, not from this process."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def of_queue(queue: PurgeQueue) -> bytes:
    """Return the length of the purge queue in Prometheus' format."""
    family = GaugeMetricFamily(
        "holdfast_purge_queue",
        "Number of objects in the workers' storage that are queued for deletion, or reserved.",
        labels=["state"],
    )
    family.add_metric(["waiting"], queue.waiting)
    family.add_metric(["failing"], queue.failing)
    family.add_metric(["reserved"], queue.reserved)
    return _exposed([family])


def of_loads(loads: Iterable[NewestLoad]) -> bytes:
    """Return the newest load of each asset and watermark in Prometheus' format."""
    described = {
        "rows": "Number of rows that the newest load wrote.",
        "duration_seconds": "Duration of the newest load in seconds.",
        "end_timestamp_seconds": "Time at which the newest load ended.",
        "watermark_timestamp_seconds": "Upper bound of the newest load, if its cursor is a time or "
        "a date.",
    }
    rows, seconds, ended, watermark = families = [
        GaugeMetricFamily(f"holdfast_load_{name}", text, labels=["asset", "key"])
        for name, text in described.items()
    ]
    for load in loads:
        whose = [_label(load.asset), _label(load.key)]
        seconds.add_metric(whose, load.seconds)
        ended.add_metric(whose, load.ended / 1e6)
        if load.rows is not None:
            rows.add_metric(whose, load.rows)
        reached = micros(load.to) if load.type in _TIMES else None
        if reached is not None:
            watermark.add_metric(whose, reached / 1e6)
    return _exposed(families)


def _label(name: str) -> str:
    """Return a label's value of bounded length, unique for each name."""
    if len(name) <= LONGEST_LABEL:
        return name
    digest = sha256(name.encode()).hexdigest()[:16]
    return f"{name[: LONGEST_LABEL - 17]}~{digest}"


def _exposed(families: Iterable[Metric]) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Stored(families))
    return generate_latest(registry)


# Cached: finding the child with these labels takes longer than counting.
_requests = cache(_REQUESTS.labels)
_seconds = cache(_SECONDS.labels)
_commands = cache(_COMMANDS.labels)


def _forget_dead_processes(directory: Path) -> None:
    """Remove the gauges of processes that were killed."""
    for file in directory.glob("gauge_live*_*.db"):
        number = int(file.stem.rpartition("_")[2])
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            multiprocess.mark_process_dead(number)  # type: ignore[no-untyped-call]
        except PermissionError:
            pass
