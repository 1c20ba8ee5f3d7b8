"""Fixtures of the run tests: a store, used sync or async, and its clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from threading import Thread

import pytest

from holdfast.commands import Command
from holdfast.store import Store, WrapperStore
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import MakeStore, StoreFixtures
from holdfast.testing.gaps import A, StoreUnderTest


class InEventLoop(WrapperStore):
    """A store whose async entry point is used by any number of threads."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()

    def execute(self, command: Command[A]) -> A:
        return asyncio.run_coroutine_threadsafe(self.inner.aexecute(command), self._loop).result()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.inner.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class RunFixtures(StoreFixtures):
    @pytest.fixture
    def store(self, make_store: MakeStore, store_clock: Clock, mode: str) -> Iterator[Store]:
        store: Store = StoreUnderTest(make_store(store_clock), self.gaps)
        with store if mode == "sync" else InEventLoop(store) as opened:
            yield opened
