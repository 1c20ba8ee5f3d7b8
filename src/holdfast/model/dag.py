"""A DAG as a value: all that the scheduler needs of a DAG file, without importing it.

The process that imports the file creates these; every other process reads them. Times are in UTC,
durations are `timedelta`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from holdfast.model.pool import DEFAULT_POOL
from holdfast.model.run import DagInfo, TriggerRule


class AssetSpec(msgspec.Struct, frozen=True, tag="asset"):
    """An asset that a DAG names. As a condition: it has a new event."""

    name: str
    uri: str


class AliasSpec(msgspec.Struct, frozen=True, tag="alias"):
    """A name that is resolved to assets when the task runs."""

    name: str


class AssetRefSpec(msgspec.Struct, frozen=True, tag="ref"):
    """An asset of another DAG, known by name or URI alone."""

    name: str | None = None
    uri: str | None = None


class AllOf(msgspec.Struct, frozen=True, tag="all"):
    """A condition that holds once all of these have events."""

    of: tuple[Condition, ...]


class AnyOf(msgspec.Struct, frozen=True, tag="any"):
    """A condition that holds once one of these has an event."""

    of: tuple[Condition, ...]


Condition: TypeAlias = "AssetSpec | AssetRefSpec | AliasSpec | AllOf | AnyOf"
Inlet: TypeAlias = AssetSpec | AssetRefSpec | AliasSpec
Outlet: TypeAlias = AssetSpec | AssetRefSpec | AliasSpec


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """A schedule by a cron expression, in a time zone."""

    expression: str
    timezone: str = "UTC"


class Every(msgspec.Struct, frozen=True, tag="every"):
    """A schedule at a fixed interval from the start date on."""

    interval: timedelta


class Once(msgspec.Struct, frozen=True, tag="once"):
    """A schedule with a single run, as soon as the start date has come."""


class OnAssets(msgspec.Struct, frozen=True, tag="assets"):
    """A schedule that starts a run when the condition holds."""

    condition: Condition


Schedule: TypeAlias = Cron | Every | Once | OnAssets


class LiteralAxis(msgspec.Struct, frozen=True, tag="literal"):
    """A list or mapping in the DAG file itself."""

    length: int


class ResultAxis(msgspec.Struct, frozen=True, tag="result"):
    """A task's result, or the part of it that `path` selects; of a mapped task, all its results."""

    task_id: str
    path: tuple[str | int, ...] = ()


Axis: TypeAlias = LiteralAxis | ResultAxis


class MappedSpec(msgspec.Struct, frozen=True):
    """A task that runs once for each combination of the items of its axes, in their order."""

    axes: tuple[Axis, ...]


CallbackKind: TypeAlias = Literal["execute", "success", "failure", "retry", "skipped"]


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a DAG."""

    task_id: str
    operator: str
    upstream: tuple[str, ...] = ()
    trigger_rule: TriggerRule = TriggerRule.ALL_SUCCESS
    retries: int = 0
    retry_delay: timedelta = timedelta(minutes=5)
    retry_backoff: float = 0.0
    """Each delay is this many times the previous one; 0: all delays are equal."""
    max_retry_delay: timedelta | None = None
    execution_timeout: timedelta | None = None
    max_active: int | None = None
    """Maximum number of instances of this task that run at once in one run."""
    pool: str = DEFAULT_POOL
    pool_slots: int = 1
    spark: bool = False
    mapped: MappedSpec | None = None
    inlets: tuple[Inlet, ...] = ()
    outlets: tuple[Outlet, ...] = ()
    callbacks: frozenset[CallbackKind] = frozenset()
    doc_md: str = ""


class WatcherSpec(msgspec.Struct, frozen=True):
    """A watcher of an asset that the DAG names."""

    asset: AssetSpec
    name: str


class DagSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A DAG. Its tasks are in topological order: each follows its upstream tasks."""

    dag_id: str
    file: str
    tasks: tuple[TaskSpec, ...]
    schedule: Schedule | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None
    catchup: bool = False
    max_active_tasks: int = 16
    max_active_runs: int = 16
    run_timeout: timedelta | None = None
    paused_at_first: bool = False
    params: str = "{}"
    """The default params, as JSON."""
    description: str = ""
    doc_md: str = ""
    tags: tuple[str, ...] = ()
    callbacks: frozenset[CallbackKind] = frozenset()
    watchers: tuple[WatcherSpec, ...] = ()

    @property
    def assets(self) -> tuple[AssetSpec, ...]:
        """Every asset that the DAG declares: by its tasks, its schedule and its watchers."""
        found: dict[AssetSpec, None] = {}
        for task in self.tasks:
            for one in (*task.inlets, *task.outlets):
                if isinstance(one, AssetSpec):
                    found[one] = None
        if isinstance(self.schedule, OnAssets):
            found |= dict.fromkeys(_assets_in(self.schedule.condition))
        found |= dict.fromkeys(watcher.asset for watcher in self.watchers)
        return tuple(found)

    def task(self, task_id: str) -> TaskSpec | None:
        return next((task for task in self.tasks if task.task_id == task_id), None)


def _assets_in(condition: Condition) -> tuple[AssetSpec, ...]:
    if isinstance(condition, AssetSpec):
        return (condition,)
    if isinstance(condition, AllOf | AnyOf):
        return tuple(asset for part in condition.of for asset in _assets_in(part))
    return ()


def spec_of(dag: DagInfo) -> DagSpec:
    """Return the definition of a DAG that the store knows."""
    return msgspec.json.decode(dag.spec, type=DagSpec)
