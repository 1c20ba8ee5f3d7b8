"""Runs of DAGs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from holdfast.commands.base import Category, Command, check_count
from holdfast.model.role import Role
from holdfast.model.run import AssetEvent, Process, Run, RunKind, RunState, Unfinished
from holdfast.model.value import check_json_object
from holdfast.portable.identifier import check_id


class DeleteRun(Command[None], frozen=True):
    """Forget a run with all its task instances and their entries."""

    touches_entries = True

    dag_id: str
    run_id: str


class CreateRun(Command[Run], frozen=True, kw_only=True):
    """A new run, queued; Conflict where the run exists, or for a backfill, one of its date. The
    DAG need not be known."""

    role = Role.EDITOR

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

    category = Category.READS_RUN

    dag_id: str
    run_id: str


class ListRuns(Command[tuple[Run, ...]], frozen=True, kw_only=True):
    """Runs, newest first, or oldest first."""

    category = Category.READS
    paged = True
    sized = True

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

    category = Category.READS


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

    category = Category.READS_RUN
    paged = True
    sized = True

    dag_id: str
    run_id: str
    limit: int | None = None
    offset: int = 0
    max_size: int | None = None
    """Characters of `extra`: the answer ends with the event that exceeds them."""
