"""The requests about DAGs, runs, attempts and watchers: what runners and people ask of a store."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from holdfast.commands.entries import (
    MOST_WRITES,
    Advance,
    Clear,
    Command,
    Delete,
    ListAssets,
    Set,
    SetMany,
    check_count,
)
from holdfast.errors import InvalidInput
from holdfast.model.dag import DagSpec
from holdfast.model.entry import AssetInfo, TaskWriter, Writer
from holdfast.model.run import (
    MAX_ERROR_LENGTH,
    RETURN_VALUE,
    AssetEvent,
    AttemptInfo,
    DagInfo,
    EmittedEvent,
    FileInfo,
    Process,
    Run,
    RunKind,
    RunState,
    TaskInstance,
    TaskState,
    Unfinished,
    Watch,
    WatchInfo,
)
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import check_json, check_json_object, check_key
from holdfast.portable.identifier import check_id


class SaveFile(Command[None], frozen=True):
    """What a DAG file holds, after it was imported.

    A file is known by its path inside its directory, so that the directory may move. The DAGs'
    assets are declared as `DeclareDagAssets` does. A DAG that is new on the schedule of an asset
    waits for that asset's next event; one that was known before is paused, scheduled and come as
    far with events as it was, whichever file held it.

    Conflict where another file holds one of them that a scheduler has seen in the last half
    minute. Run by hand, a file changes nothing of a DAG that a scheduler has had, and only adds
    its assets to those that the DAG declares.
    """

    file: str
    dags: tuple[DagSpec, ...]
    seen: bool = False
    """A scheduler has the file, and will go on telling so with `SeeDags`."""
    left: tuple[str, ...] = ()
    """DAGs that the scheduler has found in the file before: they are away now. They stay as they
    are, and any file may hold them next."""
    taken_from: tuple[str, ...] = ()
    """Files of the scheduler that have held one of the DAGs and no longer do."""

    def __post_init__(self) -> None:
        for dag in self.dags:
            check_json_object(f"params of DAG `{dag.dag_id}`", dag.params)


class SaveFileError(Command[None], frozen=True):
    """The file cannot be imported now; what it held before stays. Told again while it is so."""

    file: str
    error: str


class ForgetFile(Command[None], frozen=True):
    """The file is gone, and these DAGs that it held are away."""

    file: str
    dag_ids: tuple[str, ...] = ()


class SeeDags(Command[tuple[str, ...]], frozen=True):
    """A scheduler has files with these DAGs. Answers with those that are away, stale or not known:
    their files are to be saved again."""

    dag_ids: tuple[str, ...]


class RetireDags(Command[tuple[str, ...]], frozen=True):
    """Call DAGs stale that schedulers have had, and none for so long; answer with their ids.

    Those that are away no longer declare assets. All are otherwise as they were. Errors of files
    that nobody has told again for so long, or for an hour, are forgotten.
    """

    after: timedelta


class ListFiles(Command[tuple[FileInfo, ...]], frozen=True):
    """Every DAG file, ordered by name."""


class ListDags(Command[tuple[DagInfo, ...]], frozen=True):
    """DAGs, ordered by id."""

    limit: int | None = None
    offset: int = 0


class GetDag(Command[DagInfo], frozen=True):
    """One DAG; NotFound names those that there are."""

    dag_id: str


class PauseDag(Command[None], frozen=True):
    """Let the schedule start no more runs of a DAG, or let it again."""

    dag_id: str
    paused: bool


class CreateRun(Command[Run], frozen=True, kw_only=True):
    """A new run, queued; Conflict where the run exists, or for a backfill, one of its date. The
    DAG need not be known."""

    dag_id: str
    run_id: str
    kind: RunKind = RunKind.MANUAL
    logical_date: datetime | None = None
    data_interval_start: datetime | None = None
    data_interval_end: datetime | None = None
    conf: str = "{}"
    schedule: bool = False
    """The schedule started it: the DAG's `scheduled_until` becomes the logical date with it, and
    a run that exists already, such as by another scheduler or a backfill of that date, is as good
    as a new one."""

    def __post_init__(self) -> None:
        check_id("dag_id", self.dag_id)
        check_id("run_id", self.run_id)
        check_json_object(f"conf of run {self.dag_id}/{self.run_id}", self.conf)

    @property
    def repeatable(self) -> bool:
        return False


class CreateAssetRun(Command[Run | None], frozen=True):
    """A new run of a DAG that is scheduled on assets, if its condition holds; otherwise None.

    All events since the run before belong to it, and are taken with its creation. One of several
    schedulers that ask at the same time gets the run.
    """

    dag_id: str
    run_id: str

    @property
    def repeatable(self) -> bool:
        return False


_EACH_ONCE: Final = "name each once"


class GetRun(Command[Run], frozen=True):
    """One run; NotFound where there is none."""

    dag_id: str
    run_id: str


class ListRuns(Command[tuple[Run, ...]], frozen=True, kw_only=True):
    """Runs, newest first, or oldest first."""

    dag_id: str | None = None
    states: tuple[RunState, ...] = ()
    """Empty: any."""
    kinds: tuple[RunKind, ...] = ()
    limit: int = 100
    offset: int = 0
    oldest_first: bool = False
    max_size: int | None = None
    """Characters of `conf`: the answer ends with the run that exceeds them."""

    def __post_init__(self) -> None:
        check_count("states of runs", len(self.states), len(RunState), _EACH_ONCE)
        check_count("kinds of runs", len(self.kinds), len(RunKind), _EACH_ONCE)


class UnfinishedRuns(Command[tuple[Unfinished, ...]], frozen=True):
    """How many runs of each DAG a scheduler still has to carry out; those with none are left
    out."""


class ClaimRun(Command[Run], frozen=True, kw_only=True):
    """Become the one who carries a run out, until the lease ends unless it is renewed.

    Conflict where another process holds it; `dead` is one that the asker knows to have ended.
    Conflict, too, where it is queued and `most_running` of its DAG run already. A run that has
    ended stays so, and may not be claimed: InvalidInput.
    """

    dag_id: str
    run_id: str
    process: Process
    lease: timedelta
    dead: Process | None = None
    most_running: int | None = None


class FinishRun(Command[None], frozen=True):
    """The run's end, told by who holds it; StaleAttempt where another one does, or has ended it.
    Who has ended it may tell the same end again.

    Conflict where not exactly so many of its task instances have not ended: somebody has cleared
    one meanwhile.
    """

    dag_id: str
    run_id: str
    process: Process
    state: RunState
    waiting: int = 0


class ReleaseRun(Command[None], frozen=True):
    """Let go of a run that has not ended, so that another process may take it at once."""

    dag_id: str
    run_id: str
    process: Process


class RunEvents(Command[tuple[AssetEvent, ...]], frozen=True):
    """The asset events that started a run, oldest first."""

    dag_id: str
    run_id: str
    limit: int | None = None
    offset: int = 0
    max_size: int | None = None
    """Characters of `extra`: the answer ends with the event that exceeds them."""


class ListTaskInstances(Command[tuple[TaskInstance, ...]], frozen=True, kw_only=True):
    """Task instances, ordered by dag, run, task and map index."""

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    states: tuple[TaskState, ...] = ()
    limit: int | None = None
    offset: int = 0

    def __post_init__(self) -> None:
        check_count("states of tasks", len(self.states), len(TaskState), _EACH_ONCE)


class TaskChange(msgspec.Struct, frozen=True):
    """A task instance that gets a state without running. It is made where it does not exist."""

    task_id: str
    map_index: int
    state: TaskState
    error: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "error", self.error[:MAX_ERROR_LENGTH])


class ChangeTasks(Command[None], frozen=True):
    """What the one who holds a run has decided about its tasks, all or nothing.

    Only instances that have not ended and do not run, or were removed, are changed; the others
    stay as they are.
    StaleAttempt where another process holds the run.
    """

    dag_id: str
    run_id: str
    process: Process
    changes: tuple[TaskChange, ...]


class ClearTasks(Command[tuple[TaskScope, ...]], frozen=True, kw_only=True):
    """Let tasks of a run run again; answers which. A live attempt of theirs is ended.

    `state` says what becomes of their task stores; by default, those of tasks that had succeeded
    are dropped and all others kept. The run, if it had ended, is queued again.
    """

    dag_id: str
    run_id: str
    tasks: tuple[tuple[str, int | None], ...]
    """Task ids, each with one map index or all of them."""
    writer: Writer
    state: Literal["keep", "discard", "default"] = "default"

    def __post_init__(self) -> None:
        check_count(f"tasks of run `{self.run_id}`", len(self.tasks), MOST_WRITES)


class MarkTask(Command[None], frozen=True, kw_only=True):
    """A person says that a task has succeeded or failed. A live attempt of it is ended, and what
    it staged is dropped."""

    scope: TaskScope
    state: TaskState
    writer: Writer
    clear: bool = False
    """With success: clear the task store in the same transaction."""
    reason: str = ""
    """Why, where it was not the person's own decision."""
    unless_ended: bool = False
    """Leave a task alone that has ended."""

    def __post_init__(self) -> None:
        force_setattr(self, "reason", self.reason[:MAX_ERROR_LENGTH])


class ListAttempts(Command[tuple[AttemptInfo, ...]], frozen=True):
    """The attempts of a task instance, oldest first."""

    scope: TaskScope


class Lost(msgspec.Struct, frozen=True):
    """Leases that somebody else has, or that nobody needs any more."""

    runs: tuple[tuple[str, str], ...] = ()
    attempts: tuple[TaskWriter, ...] = ()
    watches: tuple[Watch, ...] = ()


MOST_LEASES: Final = 10_000


class Heartbeat(Command[Lost], frozen=True, kw_only=True):
    """Renew leases; answers which of them are no longer the asker's. A run that the asker has
    ended is not among those."""

    process: Process
    lease: timedelta
    runs: tuple[tuple[str, str], ...] = ()
    attempts: tuple[TaskWriter, ...] = ()
    watches: tuple[Watch, ...] = ()

    def __post_init__(self) -> None:
        for leases in (self.runs, self.attempts, self.watches):
            check_count(f"leases of {self.process}", len(leases), MOST_LEASES)


class InterruptAttempts(Command[tuple[AttemptInfo, ...]], frozen=True, kw_only=True):
    """End the live attempts of a run as interrupted, and answer which they were.

    The asker holds the run and knows that nobody supervises them any more, or asks for those
    alone whose lease has passed. Their tasks are scheduled again, or failed where that has happened
    `limit` times in a row.
    """

    dag_id: str
    run_id: str
    process: Process
    limit: int
    reason: str
    expired: bool = False


class TakeItem(Command[bool], frozen=True):
    """Say which item a mapped instance works on; answers whether it had worked on another one.

    If so, what its task store holds is about that other item, and is discarded.
    """

    writer: TaskWriter
    digest: str
    """Tells the item from others."""

    def __post_init__(self) -> None:
        if not re.fullmatch("[0-9a-f]{64}", self.digest):
            raise InvalidInput(
                f"the digest of the item of {self.writer.scope} is {self.digest!r}",
                hint="give the SHA-256 of the item as 64 hexadecimal digits",
            )


class PutResult(Command[None], frozen=True):
    """Keep a value of the attempt for other tasks. A new attempt begins without any."""

    writer: TaskWriter
    key: str
    value: str

    def __post_init__(self) -> None:
        if self.writer.attempt is None:
            raise InvalidInput(
                f"the result `{self.key:.80}` of {self.writer.scope}: it is not said which attempt "
                "has it",
                hint="only an attempt has results; give its number",
            )
        force_setattr(self, "key", check_key(self.key, self.writer.scope))
        check_json(f"the result `{self.key}` of {self.writer.scope}", self.value)


class GetResults(Command[tuple[tuple[int, str], ...]], frozen=True):
    """What instances of a task left under a key, as (map index, JSON), ordered by map index."""

    dag_id: str
    run_id: str
    task_id: str
    key: str = RETURN_VALUE
    map_index: int | None = None
    """None: all of them."""
    after: int | None = None
    """Only those behind that map index."""
    max_size: int | None = None
    """Characters of results: the answer ends with the one that exceeds them."""


class ListAssetEvents(Command[tuple[AssetEvent, ...]], frozen=True):
    """Events of one asset or of all, newest first."""

    scope: AssetScope | None = None
    limit: int = 100
    offset: int = 0
    max_size: int | None = None
    """Characters of `extra`: the answer ends with the event that exceeds them."""


Listing: TypeAlias = ListAssets | ListDags | ListRuns | ListTaskInstances | ListAssetEvents


class Count(Command[int], frozen=True):
    """How many a listing would find without its limit and offset."""

    listing: Listing


class AliasAssets(Command[tuple[AssetInfo, ...]], frozen=True):
    """The assets behind an alias: those that tasks have reported under it."""

    alias: str


class StartWatch(Command[Watch], frozen=True, kw_only=True):
    """Become the one who watches an asset; Conflict where a live process does."""

    asset: AssetScope
    watcher: str
    process: Process
    lease: timedelta
    dead: Process | None = None


class ListWatches(Command[tuple[WatchInfo, ...]], frozen=True):
    """The newest watch of each watcher that ever had one."""


AssetWrite: TypeAlias = Set | SetMany | Advance | Delete | Clear


class Emit(Command[None], frozen=True):
    """What a watcher wrote, and the event that it reports, in one transaction.

    Without event, the writes alone. StaleAttempt where the watch is not the newest.
    """

    watch: Watch
    writes: Sequence[AssetWrite] = ()
    event: EmittedEvent | None = None

    def __post_init__(self) -> None:
        entries = sum(len(w.values) if isinstance(w, SetMany) else 1 for w in self.writes)
        check_count(f"writes of watcher `{self.watch.watcher}`", entries, MOST_WRITES)

    @property
    def repeatable(self) -> bool:
        return False
