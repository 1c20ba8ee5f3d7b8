"""Grouping of concurrent reservations: those that arrive while one is sent go together."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from itertools import chain
from typing import TypeAlias

from holdfast.commands import MOST_PURGES, ReserveObjects
from holdfast.store import Store

_Waiting: TypeAlias = tuple[ReserveObjects, asyncio.Future[None]]


class GroupedReservations:
    """Async entry point for reservations. A transaction costs the same for one or a hundred."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[Hashable, list[_Waiting]] = {}
        """Reservations that wait, for each writer, scope and loop that has one under way."""
        self._groups: set[asyncio.Task[None]] = set()

    async def reserve(self, command: ReserveObjects) -> None:
        loop = asyncio.get_running_loop()
        group_key = loop, command.scope, command.writer
        waiting = self._waiting.get(group_key)
        if waiting is not None:
            answered: asyncio.Future[None] = loop.create_future()
            waiting.append((command, answered))
            await answered
            return
        self._waiting[group_key] = []
        try:
            await self._store.aexecute(command)
        finally:
            self._go_on(group_key)

    def _go_on(self, group_key: Hashable) -> None:
        waiting = self._waiting.pop(group_key)
        if waiting:
            group_size = _fitting(waiting)
            self._waiting[group_key] = waiting[group_size:]
            group = asyncio.ensure_future(self._together(group_key, waiting[:group_size]))
            self._groups.add(group)
            group.add_done_callback(self._groups.discard)

    async def _together(self, group_key: Hashable, waiting: list[_Waiting]) -> None:
        first = waiting[0][0]
        objects = tuple(chain.from_iterable(command.objects for command, _ in waiting))
        try:
            await self._store.aexecute(ReserveObjects(first.scope, objects, first.writer))
        except Exception:
            # A conflict of one reservation must not fail the whole group.
            for command, answered in waiting:
                await self._alone(command, answered)
        else:
            for _, answered in waiting:
                if not answered.done():
                    answered.set_result(None)
        finally:
            self._go_on(group_key)

    async def _alone(self, command: ReserveObjects, answered: asyncio.Future[None]) -> None:
        if answered.done():
            return  # the waiting caller has been cancelled
        try:
            await self._store.aexecute(command)
        except Exception as error:
            answered.set_exception(error)
        else:
            answered.set_result(None)


def _fitting(waiting: list[_Waiting]) -> int:
    """Return how many of the reservations fit into one command: at least one."""
    objects = 0
    for number, (command, _) in enumerate(waiting):
        objects += len(command.objects)
        if number and objects > MOST_PURGES:
            return number
    return len(waiting)
