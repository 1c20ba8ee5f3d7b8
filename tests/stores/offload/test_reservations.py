"""Reservations of objects that are sent together."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from holdfast import commands as c
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import TaskScope
from holdfast.store import Store
from holdfast.stores.offload.reservations import GroupedReservations


class BrokenStore:
    """Store whose second command, that of a group, and the ones after it fail with a bug."""

    def __init__(self) -> None:
        self.asked = 0

    async def aexecute(self, command: c.Command[Any]) -> None:
        self.asked += 1
        await asyncio.sleep(0.01)
        if self.asked > 1:
            raise OverflowError("a bug")


def test_a_bug_in_the_store_leaves_no_reservation_waiting() -> None:
    reserve = c.ReserveObjects(TaskScope("sales", "monday", "load"), (), ApiWriter("ann"))

    async def all_of() -> list[BaseException | None]:
        grouped = GroupedReservations(cast(Store, BrokenStore()))
        waiting = (grouped.reserve(reserve) for _ in range(3))
        return await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)

    first, *others = asyncio.run(all_of())

    assert first is None
    assert [type(one) for one in others] == [OverflowError, OverflowError]
