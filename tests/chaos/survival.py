"""Checks of the store after a writer, or its database, was killed."""

from __future__ import annotations

import time
from itertools import islice, pairwise
from typing import TypeAlias

import workloads as w
from processes import Worker

from holdfast import commands as c
from holdfast.model.entry import Entry, Version
from holdfast.model.scope import AssetScope, StoreScope
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
"""Scope of each kind of write."""


class Survivor:
    """Store whose writers are killed, and the writes that were acknowledged."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.written = dict.fromkeys(w.WRITES, 0)
        self.before: dict[Place, Entry[str]] = {}

    def note(self, writer: Worker, seconds: float, limit: int | None = None) -> None:
        """Count the acknowledged writes for some seconds, up to a number, or to its end."""
        reports = writer.reports_until(time.monotonic() + seconds)
        for kind in islice(reports, limit):
            self.written[kind] += 1

    def check(self) -> None:
        """Assert that every acknowledged write is present, and one in progress is present as a
        whole or absent. `written` then counts the present ones, for the next writer to continue
        from."""
        entries = self._settled()
        for kind, places in PLACES.items():
            here = [entries.get(place) for place in places]
            [number] = {int(entry.value) if entry else 0 for entry in here}
            assert self.written[kind] <= number <= self.written[kind] + 1, kind
            self.written[kind] = number
            versions: dict[StoreScope, int] = {}
            for (scope, key), entry in zip(places, here, strict=True):
                if entry:
                    assert versions.setdefault(scope, entry.version) == entry.version, kind
                    self._check_version(entry, self.before.get((scope, key)))
                    if isinstance(scope, AssetScope):
                        self._check_history(entry, self.store.execute(c.History(scope, key)))
        self.before = entries

    def _settled(self) -> dict[Place, Entry[str]]:
        """Return all entries, once the server has ended the transaction of the killed writer."""
        entries = self._entries()
        while True:
            time.sleep(0.02)
            again = self._entries()
            if again == entries:
                return entries
            entries = again

    def _entries(self) -> dict[Place, Entry[str]]:
        entries: dict[Place, Entry[str]] = {}
        for where in (c.TaskFilter(), c.AssetFilter()):
            for found in self.store.execute(c.List(where)).found:
                scope = found.scope
                if isinstance(scope, AssetScope):
                    scope = AssetScope(name=scope.name)
                entries[scope, found.entry.key] = found.entry
        return entries

    def _check_version(self, entry: Entry[str], before: Entry[str] | None) -> None:
        if before:
            grown = entry.version > before.version
            assert grown == (entry.value != before.value), f"{before} became {entry}"

    def _check_history(self, entry: Entry[str], steps: tuple[Version[str], ...]) -> None:
        assert (steps[0].version, steps[0].value) == (entry.version, entry.value)
        for newer, older in pairwise(steps):
            assert newer.previous == older.version < newer.version
            assert int(newer.value or 0) == int(older.value or 0) + 1
