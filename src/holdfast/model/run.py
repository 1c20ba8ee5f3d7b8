"""Runs of DAGs, their task instances and attempts, as shared by all packages."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from holdfast.model.entry import TaskWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import check_json_object
from holdfast.portable.identifier import MAX_ASSET_LENGTH, check_id

RETURN_VALUE: Final = "return_value"
"""The key under which a task's return value is stored."""
MAX_ERROR_LENGTH: Final = 10_000
"""Characters that are stored of a task's error."""


class RunKind(StrEnum):
    """The origin of a run. External runs belong to programs that Holdfast did not start."""

    MANUAL = "manual"
    SCHEDULED = "scheduled"
    ASSET = "asset_triggered"
    BACKFILL = "backfill"
    EXTERNAL = "external"


CARRIED_OUT: Final = tuple(kind for kind in RunKind if kind is not RunKind.EXTERNAL)
"""The kinds of runs that schedulers carry out."""


class RunState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in (RunState.SUCCESS, RunState.FAILED)


class TaskState(StrEnum):
    SCHEDULED = "scheduled"
    """Known, and waiting: for other tasks, for a free slot, or to resume after an interruption."""
    RUNNING = "running"
    UP_FOR_RETRY = "up_for_retry"
    SUCCESS = "success"
    FAILED = "failed"
    UPSTREAM_FAILED = "upstream_failed"
    SKIPPED = "skipped"
    REMOVED = "removed"
    """Its DAG no longer has the task, or its mapping has become shorter."""

    @property
    def ended(self) -> bool:
        return self not in (TaskState.SCHEDULED, TaskState.RUNNING, TaskState.UP_FOR_RETRY)


class TriggerRule(StrEnum):
    """The states of the upstream tasks that a task requires before it starts."""

    ALL_SUCCESS = "all_success"
    ALL_FAILED = "all_failed"
    ALL_DONE = "all_done"
    ALL_DONE_MIN_ONE_SUCCESS = "all_done_min_one_success"
    ALL_SKIPPED = "all_skipped"
    ALWAYS = "always"
    NONE_FAILED = "none_failed"
    NONE_FAILED_MIN_ONE_SUCCESS = "none_failed_min_one_success"
    NONE_SKIPPED = "none_skipped"
    ONE_DONE = "one_done"
    ONE_FAILED = "one_failed"
    ONE_SUCCESS = "one_success"


class Process(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process; its start time distinguishes it from a later one with the same pid."""

    host: str
    pid: int
    started: str
    mark: str = ""
    """A mark in the environment of a task's process that processes of others do not have."""

    @property
    def hostname(self) -> str:
        """The name of its machine. `host` also has the boot and container that the pid is of."""
        return self.host.partition("/")[0]

    def __str__(self) -> str:
        return f"process {self.pid} on {self.hostname}"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a DAG."""

    dag_id: str
    run_id: str
    kind: RunKind
    state: RunState
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    conf: str
    """The configuration that the run was started with, as JSON."""
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    owner: Process | None = None
    """The process that executes it, until `leased_until` unless that is renewed."""
    leased_until: datetime | None = None


class TaskInstance(msgspec.Struct, frozen=True, kw_only=True):
    """A task in a run, or one map index of it."""

    scope: TaskScope
    state: TaskState | None
    """None where nothing has run it yet: its run is external and only its store was used."""
    attempt: int
    """The newest attempt; 0 before the first."""
    failures: int
    """Attempts that failed since the task was last cleared; retries are counted by this."""
    interruptions: int
    """Consecutive attempts that ended because their supervisor did."""
    ready_at: datetime | None
    """The earliest time of the next start."""
    started_at: datetime | None
    ended_at: datetime | None
    error: str
    """One line with the reason why it failed, was skipped or is to be retried."""
    waits_for: str = ""
    """The limit that keeps it from starting, where that has lasted for a second or more."""


class Outcome(StrEnum):
    """The outcome of an attempt."""

    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    INTERRUPTED = "interrupted"
    """Its supervisor stopped or died; the task is started again, and no retry is counted."""
    STOPPED = "stopped"
    """Its task was cleared or marked while it ran."""


class AttemptInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt, as `tasks show` prints it."""

    scope: TaskScope
    number: int
    started_at: datetime
    ended_at: datetime | None
    outcome: Outcome | None
    error: str
    exit_status: int | None
    signal: int | None
    worker: Process | None
    """The task's own process."""

    @property
    def writer(self) -> TaskWriter:
        return TaskWriter(self.scope, self.number)


class EmittedEvent(msgspec.Struct, frozen=True):
    """A report, by a task's success or by a watcher, that an asset has changed."""

    name: str
    uri: str
    extra: str = "{}"
    aliases: tuple[str, ...] = ()
    """The aliases under which the task reported it."""

    def __post_init__(self) -> None:
        AssetScope(name=self.name, uri=self.uri)
        for alias in self.aliases:
            check_id("asset alias", alias, MAX_ASSET_LENGTH)
        check_json_object(f"extra of the event of asset `{self.name}`", self.extra)


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an attempt, and the resulting state of its task instance."""

    outcome: Outcome
    state: TaskState
    ready_at: datetime | None = None
    """The earliest time of a retry."""
    error: str = ""
    exit_status: int | None = None
    signal: int | None = None
    result: str | None = None
    """The return value of the task, as JSON; stored under RETURN_VALUE."""
    events: tuple[EmittedEvent, ...] = ()
    """With success: the events of the task's outlets."""
    orderly: bool = False
    """With an interruption: it was requested, so it is not counted."""

    def __post_init__(self) -> None:
        force_setattr(self, "error", self.error[:MAX_ERROR_LENGTH])


class AssetEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One change of an asset. Events are in the order in which they were recorded."""

    asset: AssetScope
    number: int
    """Numbers the events of its asset, from 1."""
    at: datetime
    extra: str
    source: TaskScope | None
    """None where a watcher reported it."""


class Unfinished(msgspec.Struct, frozen=True):
    """The number of runs of a DAG that have not ended."""

    dag_id: str
    queued: int
    running: int


class DagInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A DAG as the store knows it."""

    dag_id: str
    file: str
    """Its path inside the DAG directory; empty while no file holds the DAG."""
    spec: str
    """The `DagSpec`, as JSON."""
    paused: bool
    scheduled_until: datetime | None
    """The logical date of the newest run that the schedule has started."""
    created_at: datetime
    """When it was first saved."""
    saved_at: datetime
    seen_at: datetime | None
    """When a scheduler last had it; None where none ever did."""
    stale_at: datetime | None
    """When it was marked stale: no scheduler had had it for long."""


class FileInfo(msgspec.Struct, frozen=True):
    """A DAG file, and the traceback where it cannot be imported."""

    file: str
    saved_at: datetime
    error: str


class Watch(msgspec.Struct, frozen=True):
    """The right to report events of an asset for one of its watchers; a newer watch ends it."""

    asset: AssetScope
    watcher: str
    number: int


class WatchInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A watch and its owner."""

    watch: Watch
    owner: Process | None
    leased_until: datetime | None
