"""Sync and async test clients of a store, through `execute` or `aexecute`."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from holdfast.accessor.base import Accessor
from holdfast.commands import Command
from holdfast.errors import HoldfastError
from holdfast.store import Store

A = TypeVar("A")

MODES = ("sync", "async")


class Client(ABC):
    """Client that sends commands through the sync or async entry point of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @abstractmethod
    def __call__(self, command: Command[A]) -> A:
        """Execute the command and return its answer."""

    @abstractmethod
    def together(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Execute all commands concurrently; return the answers or errors in order."""

    @abstractmethod
    def call(self, accessor: Accessor[Any], name: str, *args: Any, **options: Any) -> Any:
        """Call the accessor's method of that name, or its async variant."""

    @abstractmethod
    def close(self) -> None:
        """Close the store through the same entry point."""


class SyncClient(Client):
    def __call__(self, command: Command[A]) -> A:
        return self.store.execute(command)

    def together(self, commands: Sequence[Command[Any]]) -> list[Any]:
        with ThreadPoolExecutor(len(commands)) as threads:
            return list(threads.map(self._outcome, commands))

    def _outcome(self, command: Command[Any]) -> Any:
        try:
            return self(command)
        except HoldfastError as error:
            return error

    def call(self, accessor: Accessor[Any], name: str, *args: Any, **options: Any) -> Any:
        return getattr(accessor, name)(*args, **options)

    def close(self) -> None:
        self.store.close()


class AsyncClient(Client):
    """Async client with its own event loop, in which the store is used and closed."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)

    def __call__(self, command: Command[A]) -> A:
        return self._runner.run(self.store.aexecute(command))

    def together(self, commands: Sequence[Command[Any]]) -> list[Any]:
        return self._runner.run(self._outcomes(commands))

    async def _outcomes(self, commands: Sequence[Command[Any]]) -> list[Any]:
        return await asyncio.gather(*(self._outcome(command) for command in commands))

    async def _outcome(self, command: Command[Any]) -> Any:
        try:
            return await self.store.aexecute(command)
        except HoldfastError as error:
            return error

    def call(self, accessor: Accessor[Any], name: str, *args: Any, **options: Any) -> Any:
        return self._runner.run(getattr(accessor, f"a{name}")(*args, **options))

    def close(self) -> None:
        with self._runner:
            self._runner.run(self.store.aclose())


def open_client(mode: str, store: Store) -> Client:
    """Return a client for `sync` or `async`."""
    return {"sync": SyncClient, "async": AsyncClient}[mode](store)
