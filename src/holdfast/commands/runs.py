"""Runs of DAGs."""

from __future__ import annotations

from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

import msgspec

from holdfast.commands.alerts import NewAlert
from holdfast.commands.base import MOST_WRITES, Category, Command, RunCommand, check_count
from holdfast.model.entry import Writer
from holdfast.model.role import Role
from holdfast.model.run import AssetEvent, Process, Run, RunKind, RunState, Unfinished
from holdfast.model.value import check_json_object
from holdfast.portable.identifier import check_id


class DeleteRun(RunCommand[None], frozen=True):
    """Delete a run with all its task instances and their entries."""

    touches_entries = True

    with_dag: bool = False
    """The run goes with its DAG: raises NotFound for an unknown DAG, and Conflict where a scheduler
    has seen its file in the last half minute, or where the run has not ended."""
    unless_leased: bool = False
    """Raise Conflict where a process is executing the run."""


class CreateRun(RunCommand[Run], frozen=True, kw_only=True):
    """Create a run, queued. Raises Conflict where the run exists or, for a backfill, one of its
    date. The DAG need not be known."""

    role = Role.EDITOR
    repeatable = False

    kind: RunKind = RunKind.MANUAL
    logical_date: datetime | None = None
    data_interval_start: datetime | None = None
    data_interval_end: datetime | None = None
    conf: str = "{}"
    schedule: bool = False
    """The schedule started it: the DAG's `scheduled_until` is set to the logical date in the same
    transaction, and an existing run, such as one by another scheduler or a backfill of that date,
    is accepted in place of a new one."""

    def __post_init__(self) -> None:
        check_id("dag_id", self.dag_id)
        check_id("run_id", self.run_id)
        check_json_object(f"conf of run {self.dag_id}/{self.run_id}", self.conf)


class CreateAssetRun(RunCommand[Run | None], frozen=True):
    """Create a run of a DAG that is scheduled on assets, if its condition holds; otherwise None.

    All events since the previous run belong to it, and are consumed with its creation. One of
    several schedulers that ask at the same time gets the run.
    """

    repeatable = False


_EACH_ONCE: Final = "name each once"


class GetRun(RunCommand[Run], frozen=True):
    """Return one run. Raises NotFound where there is none."""

    category = Category.READS_RUN


class ListRuns(Command[tuple[Run, ...]], frozen=True, kw_only=True):
    """List runs, newest first, or oldest first."""

    category = Category.READS
    paged = True
    sized = True
    measured = attrgetter("conf")
    identity = attrgetter("dag_id", "run_id")

    dag_id: str | None = None
    states: tuple[RunState, ...] = ()
    """Empty: any state."""
    kinds: tuple[RunKind, ...] = ()
    limit: int = 100
    offset: int = 0
    oldest_first: bool = False
    max_size: int | None = None
    """Limit in characters of `conf`: the answer ends with the run that exceeds it."""

    def __post_init__(self) -> None:
        check_count("states of runs", len(self.states), len(RunState), _EACH_ONCE)
        check_count("kinds of runs", len(self.kinds), len(RunKind), _EACH_ONCE)


class UnfinishedRuns(Command[tuple[Unfinished, ...]], frozen=True):
    """Count the runs of each DAG that a scheduler still has to execute; omits DAGs without any."""

    category = Category.READS


class ClaimRun(RunCommand[Run], frozen=True, kw_only=True):
    """Claim a run, to execute it until the lease expires unless it is renewed.

    Raises Conflict where another process holds it; `dead` is a process that the caller knows to
    have ended. Raises Conflict, too, where the run is queued and `most_running` of its DAG are
    running already, and InvalidInput for a run that has ended, which cannot be claimed.
    """

    process: Process
    lease: timedelta
    dead: Process | None = None
    most_running: int | None = None


class FinishRun(RunCommand[None], frozen=True):
    """Finish a run that the caller holds. Raises StaleAttempt where another process holds it, or
    has ended it. The process that has ended it may report the same state again.

    Raises Conflict where the number of its task instances that have not ended is not `waiting`: one
    has been cleared meanwhile.
    """

    process: Process
    state: RunState
    waiting: int = 0
    alert: NewAlert | None = None
    """Raised in the same transaction."""


class MarkRun(RunCommand[Run], frozen=True, kw_only=True):
    """End a run as succeeded or failed, on behalf of a person, and return it.

    Tasks that have not ended get the same state: their live attempts are ended, and the staged
    writes of these are dropped. The process that holds the run loses it. Raises InvalidInput for an
    external run.
    """

    role = Role.EDITOR
    touches_entries = True
    repeatable = False

    state: RunState
    writer: Writer
    clear: bool = False
    """With success: clear the task stores of these tasks in the same transaction."""
    stop: bool = False
    """Only stop what has not ended: Conflict where the run has."""


class ReleaseRun(RunCommand[None], frozen=True):
    """Release a run that has not ended, so that another process may claim it at once."""

    process: Process


class Waits(msgspec.Struct, frozen=True):
    """Why tasks of a run wait although all that they depend on has ended; by task."""

    dag_id: str
    run_id: str
    reasons: dict[str, str]


class ReportWaits(Command[None], frozen=True):
    """Replace the reasons why tasks of runs wait. Runs that the process does not hold are skipped.

    A reason is shown with the tasks until the lease of the run expires.
    """

    process: Process
    runs: tuple[Waits, ...]

    def __post_init__(self) -> None:
        check_count(f"runs of {self.process}", len(self.runs), MOST_WRITES)


class RunEvents(RunCommand[tuple[AssetEvent, ...]], frozen=True):
    """List the asset events that started a run, oldest first."""

    category = Category.READS_RUN
    paged = True
    sized = True
    measured = attrgetter("extra")
    identity = attrgetter("asset", "number")

    limit: int | None = None
    offset: int = 0
    max_size: int | None = None
    """Limit in characters of `extra`: the answer ends with the event that exceeds it."""
