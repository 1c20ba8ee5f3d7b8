"""What the tests of runs are handed: a store, in either colour, and its clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.commands import Command
from holdfast.store import Store
from holdfast.testing.client import A, Door, open_door
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import MakeStore, StoreFixtures
from holdfast.testing.gaps import StoreUnderTest


class BehindDoor(Store):
    """A store whose every command goes through a door, whatever its colour."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def execute(self, command: Command[A]) -> A:
        return self._door(command)


class RunFixtures(StoreFixtures):
    @pytest.fixture
    def store(self, make_store: MakeStore, store_clock: Clock, colour: str) -> Iterator[Store]:
        door = open_door(colour, StoreUnderTest(make_store(store_clock), self.gaps))
        yield BehindDoor(door)
        door.close()
