"""Server for many tests, each with its own store behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from holdfast import commands as c
from holdfast.access.identity import UserIdentity, WorkerIdentity
from holdfast.commands import Once
from holdfast.model.entry import ApiWriter, WatcherWriter
from holdfast.model.role import Role
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import Api, Settings, StateStore
from holdfast.store import Store
from holdfast.stores.http import HttpStore
from holdfast.testing.memory_store import MemoryStore

A = TypeVar("A")

WATCHER = "a watcher"


class ServedStore(Store):
    """Store of the running test. Writes of the user `a watcher` are a watcher's: a server records
    the identity in the token, and only watchers under a runner have a token of that kind."""

    def __init__(self) -> None:
        self._inner: Store = MemoryStore()
        self._loop: asyncio.AbstractEventLoop | None = None

    def become(self, store: Store) -> None:
        self.close()
        self._inner = store

    def execute(self, command: c.Command[A]) -> A:
        return self._inner.execute(_by_watcher(command))

    async def aexecute(self, command: c.Command[A]) -> A:
        self._loop = asyncio.get_running_loop()
        return await self._inner.aexecute(_by_watcher(command))

    def supports(self, command: type[c.Command[Any]]) -> bool:
        return self._inner.supports(command)

    def close(self) -> None:
        """Close it, with its connections in the server's event loop."""
        if self._loop is None:
            self._inner.close()
        else:
            asyncio.run_coroutine_threadsafe(self.aclose(), self._loop).result()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _by_watcher(command: Any) -> Any:
    if isinstance(command, Once):
        return msgspec.structs.replace(command, inner=_by_watcher(command.inner))
    if getattr(command, "writer", None) == ApiWriter(WATCHER):
        return msgspec.structs.replace(command, writer=WatcherWriter())
    return command


class ServedStores:
    """Server, and the store behind it."""

    def __init__(self, home: Path) -> None:
        self.store = ServedStore()
        settings = Settings(
            api=Api(rate_limit=0, access_log=False),
            state_store=StateStore(max_value_storage_bytes=0),
            directory=home,
        )
        self.home = settings.home
        self.server = EmbeddedServer(self.store, settings)

    def client(self, user: str, **options: Any) -> HttpStore:
        """Return the store behind the server, for an admin of that name."""
        token = self.server.tokens.issue(UserIdentity(user, Role.ADMIN))
        return HttpStore(self.server.url, token, **options)

    def close(self) -> None:
        self.store.close()
        self.server.close()


@contextmanager
def serving_stores(home: Path) -> Iterator[ServedStores]:
    served = ServedStores(home)
    yield served
    served.close()


class AnyIdentityStore(Store):
    """Store that sends commands of users, watchers and workers, each with a token of its own."""

    def __init__(self, served: ServedStores) -> None:
        self._person = served.client("ann")
        self._watcher = served.client(WATCHER)
        worker = served.server.tokens.issue(WorkerIdentity("w1"))
        self._worker = HttpStore(served.server.url, worker)

    def execute(self, command: c.Command[A]) -> A:
        return self._asked(command).execute(command)

    def _asked(self, command: c.Command[Any]) -> HttpStore:
        if isinstance(command, c.StartAttempt) and (command.worker or command.lease):
            return self._worker
        is_watchers = isinstance(getattr(command, "writer", None), WatcherWriter)
        return self._watcher if is_watchers else self._person

    def supports(self, command: type[c.Command[Any]]) -> bool:
        return self._person.supports(command)

    def close(self) -> None:
        for one in (self._person, self._watcher, self._worker):
            one.close()
