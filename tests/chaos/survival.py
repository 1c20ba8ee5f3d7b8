"""What must be true of the store after a writer, or the database under it, was killed."""

from __future__ import annotations

import time
from itertools import islice
from typing import TypeAlias

import workloads as w
from processes import Worker

from holdfast import command as c
from holdfast.entry import Entry, Version
from holdfast.scope import AssetScope, StoreScope
from holdfast.store import Store

Place: TypeAlias = tuple[StoreScope, str]

PLACES: dict[str, list[Place]] = {
    "set": [(w.TASK, "counter")],
    "set_many": [(w.TASK, key) for key in w.BATCH],
    "asset set": [(w.FIRST, "counter")],
    "asset set_many": [(w.SECOND, key) for key in w.BATCH],
    "advance": [(w.FIRST, "mark")],
    "staged": [(w.FIRST, "staged 1"), (w.FIRST, "staged 2"), (w.SECOND, "staged 3")],
}
"""Where each kind of write goes."""


class Survivor:
    """A store that writers are killed on, and what they were told."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.written = dict.fromkeys(w.WRITES, 0)
        self.before: dict[Place, Entry[str]] = {}

    def note(self, writer: Worker, seconds: float, limit: int | None = None) -> None:
        """Count what the writer was told, for so long, or up to so many writes, or to its end."""
        reports = writer.reports_until(time.monotonic() + seconds)
        for kind in islice(reports, limit):
            self.written[kind] += 1

    def check(self) -> None:
        """Every acknowledged write is there; what was under way is there as a whole or not at all.

        `written` then counts what is there, for the next writer to go on from.
        """
        entries = self._settled()
        for kind, places in PLACES.items():
            here = [entries.get(place) for place in places]
            [number] = {int(entry.value) if entry else 0 for entry in here}
            assert self.written[kind] <= number <= self.written[kind] + 1, kind
            self.written[kind] = number
            for scope in {scope for scope, _ in places}:
                versions = {e and e.version for e, p in zip(here, places, strict=True) if p[0] == scope}
                assert len(versions) == 1, f"{kind} was written in parts"
            for place, entry in zip(places, here, strict=True):
                self._check_version(place, entry)
                if entry and isinstance(place[0], AssetScope):
                    self._check_history(entry, self.store.execute(c.History(*place)))
        self.before = entries

    def _settled(self) -> dict[Place, Entry[str]]:
        """All entries, once the server has ended what the killed writer had begun."""
        entries = self._entries()
        while True:
            time.sleep(0.02)
            again = self._entries()
            if again == entries:
                return entries
            entries = again

    def _entries(self) -> dict[Place, Entry[str]]:
        tasks = self.store.execute(c.List(c.TaskFilter())).found
        assets = self.store.execute(c.List(c.AssetFilter())).found
        return {
            **{(found.scope, found.entry.key): found.entry for found in tasks},
            **{(AssetScope(name=f.scope.name), f.entry.key): f.entry for f in assets},
        }

    def _check_version(self, place: Place, entry: Entry[str] | None) -> None:
        before = self.before.get(place)
        if before and entry:
            grown = entry.version > before.version
            assert grown == (entry.value != before.value), f"{before} became {entry}"

    def _check_history(self, entry: Entry[str], steps: tuple[Version[str], ...]) -> None:
        assert (steps[0].version, steps[0].value) == (entry.version, entry.value)
        for newer, older in zip(steps, steps[1:], strict=False):
            assert newer.previous == older.version < newer.version
            assert int(newer.value or 0) == int(older.value or 0) + 1
