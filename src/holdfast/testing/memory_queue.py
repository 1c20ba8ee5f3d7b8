"""Reference model of the purge queue, in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from holdfast import commands as c
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import is_in_place, is_reference
from holdfast.stores import refusals

Object: TypeAlias = tuple[StoreScope, str, str]
"""The scope of an object, its key, and the JSON text of its reference."""


@dataclass
class _Row:
    """An object without references, or without references yet."""

    owner: StoreScope
    key: str
    value: str
    due_at: datetime
    taken_until: datetime
    reservation: str = ""
    taker: str = ""
    tries: int = 0
    error: str = ""

    def reserves(self, other: _Row, now: datetime) -> bool:
        """Return whether this row prevents the deletion of the other one's object."""
        same = (self.owner, self.key) == (other.owner, other.key)
        by_key = is_in_place(other.value) and not self.value
        return same and self.due_at > now and (self.value == other.value or by_key)


class ObjectQueue:
    """The queue. Owners are task instances, and assets by name and URI."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._rows: dict[int, _Row] = {}
        self._barriers: dict[int, tuple[c.Part, str, datetime]] = {}
        """The parts that are being deleted as a whole, with the taker and the end of the lease."""
        self._last = 0

    def add(self, object: Object, wait: timedelta = timedelta(0), reservation: str = "") -> None:
        self._last += 1
        now = self._clock()
        self._rows[self._last] = _Row(*object, now + wait, now, reservation)

    def reserve(self, owner: StoreScope, objects: c.Reserved) -> None:
        for key, value, _ in objects:
            self._untaken(owner, key, value)
        for key, value, reservation in objects:
            self.add((owner, key, value), c.RESERVED_FOR, reservation)

    def release(self, objects: c.Reserved) -> None:
        now = self._clock()
        released = {reservation for _, _, reservation in objects}
        for row in self._rows.values():
            if row.reservation in released and row.taken_until <= now:
                row.due_at, row.reservation = now, ""

    def queue(self, objects: Iterable[Object]) -> None:
        queued = {(row.owner, row.key, row.value) for row in self._rows.values()}
        for object in objects:
            if object not in queued:
                self.add(object)

    def claim(self, owner: StoreScope, values: Iterable[tuple[str, str]], reservation: str) -> None:
        """Claim the objects that were reserved for a write, which is about to refer to them."""
        claimed: list[int] = []
        for key, value in values:
            if is_reference(value):
                reserved = "" if is_in_place(value) else value
                rows = self._untaken(owner, key, value).items()
                mine = [
                    id
                    for id, row in rows
                    if reservation and (row.reservation, row.value) == (reservation, reserved)
                ]
                if not mine and (reservation or not is_in_place(value)):
                    raise refusals.not_reserved(owner, key)
                claimed += mine
                claimed += [id for id, row in rows if not row.reservation and row.value == value]
        for id in claimed:
            del self._rows[id]

    def name(self, owner: StoreScope, key: str, value: str) -> None:
        """Remove an existing object from the queue, as a write is about to refer to it."""
        for id, row in self._untaken(owner, key, value).items():
            if row.value == value and not row.reservation:
                del self._rows[id]

    def _untaken(self, owner: StoreScope, key: str, value: str) -> dict[int, _Row]:
        """Return the queued rows of a key. Raise ObjectBusy where this object is being deleted: or
        any of the key, where the object is known by its key alone."""
        now, by_key = self._clock(), not value or is_in_place(value)
        for part, _, until in self._barriers.values():
            if until > now and _is_part(part, owner):
                raise refusals.being_deleted(owner, key)
        rows = {id: r for id, r in self._rows.items() if (r.owner, r.key) == (owner, key)}
        for row in rows.values():
            if row.taken_until > now and (by_key or row.value == value):
                raise refusals.being_deleted(owner, key)
        return {id: row for id, row in rows.items() if row.taken_until <= now}

    def take(self, command: c.TakePurges, named: Collection[Object]) -> c.Taken:
        now = self._clock()
        if command.retry:
            for row in self._rows.values():
                if row.tries and row.taken_until <= now and _is_part(command.part, row.owner):
                    row.due_at = now
        due = [
            (id, row)
            for id, row in sorted(self._rows.items(), key=lambda item: item[1].due_at)
            if row.due_at <= now
            and _is_part(command.part, row.owner)
            and not any(other.reserves(row, now) for other in self._rows.values())
        ][: command.limit]
        taken = []
        for id, row in due:
            if (row.owner, row.key, row.value) in named:
                del self._rows[id]
            else:
                row.due_at = row.taken_until = now + command.lease
                row.taker = command.taker
                taken.append(c.Purge(id, row.owner, row.key, row.value, row.tries))
        return c.Taken(tuple(taken), len(due), self._barrier(command, taken, named))

    def _barrier(
        self, command: c.TakePurges, taken: list[c.Purge], named: Collection[Object]
    ) -> int | None:
        """Block writers of the whole part, where all of its objects are being deleted."""
        queued = [row for row in self._rows.values() if _is_part(command.part, row.owner)]
        names = any(
            _is_part(command.part, owner) and is_in_place(value) for owner, _, value in named
        )
        if not command.whole or not taken or names or len(queued) > len(taken):
            return None
        self._last += 1
        until = self._clock() + command.lease
        self._barriers[self._last] = command.part, command.taker, until
        return self._last

    def finish(self, command: c.FinishPurges) -> None:
        now = self._clock()
        for id in set(command.gone) & self._barriers.keys():
            if self._barriers[id][1] == command.taker:
                del self._barriers[id]
        mine = {id: row for id, row in self._rows.items() if row.taker == command.taker}
        for id in mine.keys() & set(command.gone):
            gone = mine[id]
            kept = (gone.value, "") if is_in_place(gone.value) else (gone.value,)
            for other, row in list(self._rows.items()):
                if (row.owner, row.key) == (gone.owner, gone.key) and row.value in kept:
                    del self._rows[other]
        for id, error in command.failed:
            if id in mine:
                row = mine[id]
                row.due_at = now + c.pause_after(row.tries)
                row.taken_until, row.taker, row.error = now, "", error
                row.tries += 1

    def count(self, part: c.Part) -> c.PurgeQueue:
        now = self._clock()
        rows = [row for row in self._rows.values() if _is_part(part, row.owner)]
        failing = [row for row in rows if row.tries]
        waiting = [row for row in rows if row.tries or row.due_at <= now or row.taken_until > now]
        latest = max(failing, key=lambda row: row.due_at, default=None)
        error = latest.error if latest else ""
        return c.PurgeQueue(len(waiting), len(failing), len(rows) - len(waiting), error)


def _is_part(part: c.Part, owner: StoreScope) -> bool:
    match part.scope, owner:
        case None, _:
            return True
        case TaskScope() as asked, TaskScope() as its:
            same_task = (asked.dag_id, asked.run_id, asked.task_id) == (
                *(its.dag_id, its.run_id, its.task_id),
            )
            return asked == its or (part.all_map_indices and same_task)
        case AssetScope(name=str(name)), AssetScope() as its:
            return its.name == name
        case AssetScope(uri=str(uri)), AssetScope() as its:
            return its.uri == uri
    return False
