"""The store contract: a store executes commands through a sync and an async entry point."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, Protocol, Self, TypeAlias, TypeVar

from holdfast import flow
from holdfast.commands import Command

A = TypeVar("A")
Steps: TypeAlias = flow.Steps[Command[Any], A]
"""Steps that send commands to a store."""


class Store(ABC):
    """Executes commands. SQL, HTTP, memory, a pipe, a third party's backend: all are stores.

    `execute` may be called from any thread. It raises only errors of `holdfast.errors`.
    """

    @abstractmethod
    def execute(self, command: Command[A]) -> A:
        """Execute the command and return its answer. Its writes are durable once this returns."""

    async def aexecute(self, command: Command[A]) -> A:
        """Async variant of `execute`. The default runs `execute` in a thread."""
        return await asyncio.to_thread(self.execute, command)

    def supports(self, command: type[Command[Any]]) -> bool:
        """Return whether this store can execute commands of that type at all."""
        return True

    def close(self) -> None:  # noqa: B027  (most stores hold nothing that needs closing)
        """Close connections. The store must not be used afterwards."""

    async def aclose(self) -> None:
        """Async variant of `close`."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class WrapperStore(Store):
    """A store in front of another one, to which it forwards commands that it does not handle."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def execute(self, command: Command[A]) -> A:
        return self.inner.execute(command)

    def supports(self, command: type[Command[Any]]) -> bool:
        return self.inner.supports(command)

    def close(self) -> None:
        self.inner.close()

    async def aclose(self) -> None:
        await self.inner.aclose()


class AsyncExecutor(Protocol):
    """The async entry point of a store, or of an object in front of one."""

    async def aexecute(self, command: Command[A]) -> A: ...


def run(store: Store, steps: Steps[A]) -> A:
    """Send the commands of the steps to a store, one after the other."""
    return flow.run(steps, store.execute)


async def arun(store: AsyncExecutor, steps: Steps[A]) -> A:
    """Async variant of `run`."""
    return await flow.arun(steps, store.aexecute)
