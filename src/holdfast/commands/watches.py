"""Watchers of assets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TypeAlias

from holdfast.commands.base import MOST_WRITES, Category, Command, check_count
from holdfast.commands.entries import Advance, Clear, Delete, Set, SetMany
from holdfast.model.run import EmittedEvent, Process, Watch, WatchInfo
from holdfast.model.scope import AssetScope, StoreScope


class StartWatch(Command[Watch], frozen=True, kw_only=True):
    """Claim the watch of an asset. Raises Conflict where a live process has it."""

    for_workers = True

    asset: AssetScope
    watcher: str
    process: Process
    lease: timedelta
    dead: Process | None = None


class ListWatches(Command[tuple[WatchInfo, ...]], frozen=True):
    """List the newest watch of each watcher that ever had one."""

    category = Category.READS


AssetWrite: TypeAlias = Set | SetMany | Advance | Delete | Clear


class Emit(Command[None], frozen=True):
    """Apply the writes of a watcher and record the event that it reports, in one transaction.

    Without an event, only the writes. Raises StaleAttempt where the watch is not the newest.
    """

    touches_entries = True
    repeatable = False

    watch: Watch
    writes: Sequence[AssetWrite] = ()
    event: EmittedEvent | None = None

    def __post_init__(self) -> None:
        entries = sum(len(w.values) if isinstance(w, SetMany) else 1 for w in self.writes)
        check_count(f"writes of watcher `{self.watch.watcher}`", entries, MOST_WRITES)

    def texts(self) -> Iterator[tuple[StoreScope, str, str]]:
        for write in self.writes:
            yield from write.texts()
