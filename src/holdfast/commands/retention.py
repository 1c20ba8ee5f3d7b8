"""Retention of runs and asset events: what may be deleted by age, and its deletion."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from holdfast.commands.base import Category, Command, check_count
from holdfast.model.run import PrunableEvent, PrunableRun, RunState

MOST_PRUNED: Final = 100
"""Maximum number of runs that one command deletes. Other writers wait meanwhile."""
MOST_PRUNED_EVENTS: Final = 1000


class RunsToPrune(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are deleted by age; every condition is as of a fixed time.

    Kept in any case: runs that have not ended, the newest ended run of each kind of a DAG, a
    backfill of a date that the schedule has not reached yet, and runs that have a live attempt,
    staged writes, or a task entry that has not expired by `now`.
    """

    now: datetime
    before: datetime | None = None
    """The time by which runs have ended; None: none are meant, except external ones."""
    external_before: datetime | None = None
    """The time by which external runs have ended, or were last used; None: none are meant."""
    abandoned_before: datetime | None = None
    """The time by which an attempt without a valid lease began whose program is taken to be dead if
    it has written nothing since `external_before`; None: none is, whenever it began."""
    dag_id: str | None = None
    state: RunState | None = None


class ListPrunableRuns(Command[tuple[PrunableRun, ...]], frozen=True):
    """List up to `limit` runs to prune, oldest first, starting after the one with that id."""

    category = Category.READS
    touches_entries = True
    paged = True

    which: RunsToPrune
    limit: int
    after: int = 0


class PruneRuns(Command[tuple[int, ...]], frozen=True):
    """Delete runs, with all that belongs to them, in one transaction; return the ids of those that
    were still to be pruned. Runs that a process has locked are skipped."""

    touches_entries = True
    lengthy = True

    which: RunsToPrune
    runs: tuple[int, ...]
    """Their ids, from `ListPrunableRuns`."""

    def __post_init__(self) -> None:
        check_count("runs to prune", len(self.runs), MOST_PRUNED)


class DeletedRuns(Command[tuple[str, ...]], frozen=True):
    """Return those of the run ids whose run was deleted, and does not exist again."""

    category = Category.READS

    dag_id: str
    run_ids: tuple[str, ...]

    def __post_init__(self) -> None:
        check_count(f"runs of `{self.dag_id}`", len(self.run_ids), MOST_PRUNED)


class ListPrunableEvents(Command[tuple[PrunableEvent, ...]], frozen=True):
    """List up to `limit` asset events to prune, by asset and number, starting after the given one:
    those recorded by the cut-off.

    Kept in any case: the newest event of each asset, events that a DAG scheduled on assets has yet
    to consume, and the events that started a run, as long as the run exists.
    """

    category = Category.READS
    paged = True

    before: datetime
    limit: int
    after: PrunableEvent | None = None


class PruneEvents(Command[int], frozen=True):
    """Delete asset events in one transaction; return how many were still to be pruned."""

    before: datetime
    events: tuple[PrunableEvent, ...]

    def __post_init__(self) -> None:
        check_count("asset events to prune", len(self.events), MOST_PRUNED_EVENTS)
