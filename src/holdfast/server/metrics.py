"""Metrics for Prometheus. With several processes, each counts into files of a directory that they
share, and any of them reports the sum."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from itertools import accumulate
from pathlib import Path

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Summary,
    generate_latest,
    multiprocess,
)
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from holdfast.commands import PurgeQueue
from holdfast.model.activity import Activity
from holdfast.model.families import FAMILIES
from holdfast.model.figures import MOST_SERIES, OTHER, Family, Figures
from holdfast.model.load_record import micros
from holdfast.model.pool import NO_LIMIT, Pool
from holdfast.model.run import RunState, Unfinished
from holdfast.model.service import Service, ServiceKind
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
_COMMAND_SECONDS = Summary(
    "holdfast_command_seconds",
    "Time that the store took for commands, in seconds.",
    ["command"],
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


def count_command(name: str, outcome: str, seconds: float) -> None:
    _commands(name, outcome).inc()
    _command_seconds(name).observe(seconds)


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


class _Gauge:
    """A gauge with labels. Series beyond `MOST_SERIES` are combined into those of `OTHER`."""

    def __init__(
        self,
        name: str,
        text: str,
        *labels: str,
        named: int | None = None,
        combine: Callable[[float, float], float] = operator.add,
    ) -> None:
        """Create the gauge; `named` is how many of its labels may have any value, by default all.
        Those are the first ones."""
        self._family = GaugeMetricFamily(name, text, labels=labels)
        self._named = len(labels) if named is None else named
        self._combine = combine
        self._values: dict[tuple[str, ...], float] = {}

    def add(self, labels: tuple[str, ...], value: float) -> None:
        key = tuple(map(_label, labels))
        if key not in self._values and len(self._values) >= MOST_SERIES:
            key = (OTHER,) * self._named + key[self._named :]
            value = self._combine(self._values[key], value) if key in self._values else value
        self._values[key] = value

    def collected(self) -> Metric:
        for labels, value in self._values.items():
            self._family.add_metric(labels, value)
        return self._family


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


def of_runs(unfinished: Iterable[Unfinished]) -> bytes:
    """Return the number of unfinished runs in Prometheus' format."""
    family = _Gauge(
        "holdfast_runs", "Number of unfinished runs by state.", "dag_id", "state", named=1
    )
    for one in unfinished:
        for state, count in ((RunState.QUEUED, one.queued), (RunState.RUNNING, one.running)):
            family.add((one.dag_id, state.value), count)
    return _exposed([family.collected()])


def of_activity(activity: Activity) -> bytes:
    """Return the current activity in Prometheus' format."""
    tasks = GaugeMetricFamily(
        "holdfast_tasks", "Number of unfinished task instances by state.", labels=["state"]
    )
    for state, count in activity.tasks.items():
        tasks.add_metric([state], count)
    dags = GaugeMetricFamily(
        "holdfast_dags", "Number of DAGs that are not stale.", value=activity.dags
    )
    errors = GaugeMetricFamily(
        "holdfast_import_errors",
        "Number of DAG files that cannot be used.",
        value=activity.import_errors,
    )
    alive = _Gauge(
        "holdfast_watcher_up",
        "1 if a triggerer runs the watcher, 0 if none has for up to a day.",
        *("asset", "watcher"),
        combine=min,
    )
    events = _Gauge(
        "holdfast_watcher_last_event_timestamp_seconds",
        "Time of the newest event of the asset of a watcher.",
        *("asset", "watcher"),
        combine=min,
    )
    for watcher in activity.watchers:
        whose = watcher.asset, watcher.watcher
        alive.add(whose, watcher.alive)
        if watcher.last_event_at is not None:
            events.add(whose, watcher.last_event_at.timestamp())
    alerts = GaugeMetricFamily(
        "holdfast_undelivered_alerts",
        "Number of alerts that the webhook or the callback has not taken yet.",
        value=activity.undelivered_alerts,
    )
    return _exposed([tasks, dags, errors, alive.collected(), events.collected(), alerts])


def of_pools(pools: Iterable[Pool]) -> bytes:
    """Return the slots of pools in Prometheus' format."""
    slots = _Gauge(
        "holdfast_pool_slots",
        "Number of slots of a pool; -1: any number.",
        "pool",
        combine=lambda one, more: NO_LIMIT if NO_LIMIT in (one, more) else one + more,
    )
    used = _Gauge("holdfast_pool_used_slots", "Number of slots that attempts take up.", "pool")
    for pool in pools:
        slots.add((pool.name,), pool.slots)
        used.add((pool.name,), pool.used)
    return _exposed([slots.collected(), used.collected()])


def of_services(services: Iterable[Service]) -> bytes:
    """Return the age of each service's last sign of life in Prometheus' format."""
    counts = GaugeMetricFamily(
        "holdfast_services",
        "Number of schedulers and triggerers, alive or lost.",
        labels=["service", "state"],
    )
    age = _Gauge(
        "holdfast_service_age_seconds",
        "Time since the last sign of life of a scheduler's or triggerer's loop in seconds.",
        *("service", "host", "process"),
        combine=max,
    )
    found = list(services)
    for kind in ServiceKind:
        alive = [one.alive for one in found if one.kind is kind]
        counts.add_metric([kind.value, "alive"], sum(alive))
        counts.add_metric([kind.value, "lost"], len(alive) - sum(alive))
    for one in found:
        who = one.kind.value, one.process.hostname, str(one.process.pid)
        age.add(who, one.age.total_seconds())
    return _exposed([counts, age.collected()])


def of_figures(figures: Figures) -> bytes:
    """Return the counters and histograms of services in Prometheus' format."""
    return _exposed([_of_family(family, figures) for family in FAMILIES])


def _of_family(family: Family, figures: Figures) -> Metric:
    name, text, labels, bounds = family
    counters = CounterMetricFamily(name, text, labels=labels)
    histograms = HistogramMetricFamily(name, text, labels=labels)
    for found, values in figures.of(family):
        whose = list(map(_label, found))
        if bounds:
            *counts, total = values
            names = [*(f"{float(bound):g}" for bound in bounds), "+Inf"]
            buckets = list(zip(names, accumulate(counts), strict=True))
            histograms.add_metric(whose, buckets, total)
        else:
            counters.add_metric(whose, values[0])
    return histograms if bounds else counters


def of_disks(free: Mapping[str, int]) -> bytes:
    """Return the free space of disks in Prometheus' format."""
    family = GaugeMetricFamily(
        "holdfast_disk_free_bytes",
        "Free space of the disk of `core.home`, and of that of an SQLite database.",
        labels=["directory"],
    )
    for name, size in free.items():
        family.add_metric([name], size)
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
    combined: Sequence[Callable[[float, float], float]] = (operator.add, max, min, min)
    rows, seconds, ended, watermark = families = [
        _Gauge(f"holdfast_load_{name}", text, "asset", "key", combine=combine)
        for (name, text), combine in zip(described.items(), combined, strict=True)
    ]
    for load in loads:
        whose = load.asset, load.key
        seconds.add(whose, load.seconds)
        ended.add(whose, load.ended / 1e6)
        if load.rows is not None:
            rows.add(whose, load.rows)
        reached = micros(load.to) if load.type in _TIMES else None
        if reached is not None:
            watermark.add(whose, reached / 1e6)
    return _exposed(family.collected() for family in families)


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
_command_seconds = cache(_COMMAND_SECONDS.labels)


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
