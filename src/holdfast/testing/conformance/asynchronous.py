"""Tests of the async entry point, for stores whose tests use the sync one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.errors import HoldfastError, UnknownAsset
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.store import Store
from holdfast.testing.conformance.fixtures import ANN, TASK, StoreFixtures


class Asynchronous(StoreFixtures):
    @pytest.fixture
    def run(self, store: Store) -> Iterator[Callable[[Awaitable[Any]], Any]]:
        """Yield a function that runs an awaitable in an event loop, which closes the store at the
        end."""
        with asyncio.Runner() as runner:
            store.execute(c.RegisterTask(TASK))
            yield runner.run  # type: ignore[misc]
            runner.run(store.aclose())

    def test_a_command_is_answered(self, store: Store, run: Callable[..., Any]) -> None:
        run(store.aexecute(c.Set(TASK, "k", "1", ANN)))

        assert run(store.aexecute(c.Get(TASK, "k"))) == "1"

    def test_sync_and_async_calls_read_each_others_writes(
        self, store: Store, run: Callable[..., Any]
    ) -> None:
        store.execute(c.Set(TASK, "k", "1", ANN))
        run(store.aexecute(c.Set(TASK, "l", "2", ANN)))

        assert run(store.aexecute(c.Get(TASK, "k"))) == "1"
        assert store.execute(c.Get(TASK, "l")) == "2"

    def test_an_error_is_raised(self, store: Store, run: Callable[..., Any]) -> None:
        with pytest.raises(UnknownAsset):
            run(store.aexecute(c.Set(AssetScope(name="nobody's"), "k", "1", ANN)))

    def test_sync_and_async_calls_raise_the_same_error(
        self, store: Store, run: Callable[..., Any]
    ) -> None:
        command = c.Get(TaskScope("no", "such", "task"), "k")
        with pytest.raises(HoldfastError) as told:
            store.execute(command)

        with pytest.raises(HoldfastError) as again:
            run(store.aexecute(command))

        assert (type(again.value), str(again.value)) == (type(told.value), str(told.value))

    def test_commands_are_executed_concurrently(
        self, store: Store, run: Callable[..., Any]
    ) -> None:
        async def together() -> list[int]:
            return await asyncio.gather(
                *(store.aexecute(c.Set(TASK, f"k{n}", str(n), ANN)) for n in range(20))
            )

        assert len(run(together())) == 20
        assert [store.execute(c.Get(TASK, f"k{n}")) for n in range(20)] == [
            str(n) for n in range(20)
        ]

    def test_a_command_does_not_block_the_event_loop(
        self, store: Store, run: Callable[..., Any]
    ) -> None:
        async def count() -> int:
            ticks = 0
            writing = asyncio.create_task(store.aexecute(c.Set(TASK, "k", "1", ANN)))
            while not writing.done():
                ticks += 1
                await asyncio.sleep(0)
            return ticks

        assert run(count()) > 0

    def test_a_cancelled_command_leaves_the_store_usable(
        self, store: Store, run: Callable[..., Any]
    ) -> None:
        async def cancelled() -> None:
            writing = asyncio.create_task(store.aexecute(c.Set(TASK, "k", "1", ANN)))
            await asyncio.sleep(0)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

        for _ in range(5):
            run(cancelled())
        run(store.aexecute(c.Set(TASK, "l", "2", ANN)))  # a cancelled command may still be executed

        assert run(store.aexecute(c.Get(TASK, "l"))) == "2"
