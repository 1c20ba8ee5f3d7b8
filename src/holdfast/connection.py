"""State for programs that Holdfast did not start: scripts, notebooks, other orchestrators."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

import msgspec

from holdfast import commands as c
from holdfast import distribution
from holdfast.access.identity import whoami
from holdfast.accessor.asset_store import AssetStore
from holdfast.accessor.binding import Rules
from holdfast.accessor.task_store import ExternalTaskStore, TaskStore
from holdfast.errors import (
    HoldfastError,
    InvalidInput,
    NoToken,
    StaleAttempt,
    StoreUnavailable,
    UnknownTaskInstance,
)
from holdfast.model.entry import TaskWriter, Writer
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.settings import Settings, load
from holdfast.store import Steps, Store, arun, run
from holdfast.stores.backend.contract import load_backend
from holdfast.stores.offload.configuration import Offloading
from holdfast.stores.offload.contract import entries_of
from holdfast.stores.sql import SqlStore

TOKEN_VARIABLE: Final = "HOLDFAST_TOKEN"  # noqa: S105  (its name, not its content)


def open_store(
    settings: Settings,
    *,
    retry_window: timedelta = timedelta(0),
    answer_timeout: timedelta | None = None,
) -> Store:
    """The configured store: the product's database, and behind it the configured backend."""
    ledger = SqlStore(
        settings.database_url,
        history_limit=settings.state_store.asset_history_limit,
        retry_window=retry_window,
        answer_timeout=answer_timeout,
        max_connections=settings.database.max_connections,
    )
    return load_backend(settings.state_store.backend).open(ledger)


def connect(url: str | None = None, *, token: str | None = None) -> Connection:
    """Open the configured store, that of a database URL, or that of a server's URL.

    A server is at `http://…` or `https://…`, and wants a token: given here, or in the variable
    HOLDFAST_TOKEN.
    """
    distribution.check()
    settings = load()
    if url is not None and url.lower().startswith(("http://", "https://")):
        return _connected(_served(url, token, settings), settings)
    if token is not None:
        raise InvalidInput(
            "a token is given without the URL of a server", hint='connect("http://…", token=…)'
        )
    if url is not None:
        database = msgspec.structs.replace(settings.database, url=url)
        settings = msgspec.structs.replace(settings, database=database)
    return _connected(open_store(settings, retry_window=settings.core.retry_window), settings)


def _connected(store: Store, settings: Settings) -> Connection:
    """As a worker is: values go to the worker-side backend where there is one."""
    its = rules(settings)
    return Connection(its.offloading.over(store), its)


def _served(url: str, token: str | None, settings: Settings) -> Store:
    # Loaded when needed: with TLS it takes a while.
    from holdfast.stores.http import HttpStore

    given = (os.environ.get(TOKEN_VARIABLE, "") if token is None else token).strip()
    if not given:
        raise NoToken(
            "a server wants a token, and there is none",
            hint=f"connect(url, token=…), or set {TOKEN_VARIABLE}; "
            "`holdfast auth user-token` makes one",
        )
    return HttpStore(url, given, retry_window=settings.core.retry_window)


def rules(settings: Settings) -> Rules:
    """What the settings say about values and their lifetime."""
    section = settings.state_store
    return Rules(
        default_retention=timedelta(days=section.default_retention_days),
        max_value_bytes=section.max_value_storage_bytes,
        clear_on_success=section.clear_on_success,
        offloading=Offloading.of(settings),
    )


_BESIDE: dict[Store, Callable[[], None]] = {}
"""What a store's users opened beside it."""


def before_close(store: Store, close: Callable[[], None]) -> None:
    """Have `close` called before a connection closes the store."""
    _BESIDE[store] = close


def _close_beside(store: Store) -> None:
    if (close := _BESIDE.pop(store, None)) is not None:
        close()


class Connection:
    """Both stores, for whoever runs this program."""

    def __init__(self, store: Store, rules: Rules | None = None) -> None:
        self.store = store
        self._rules = rules or Rules()

    def task_store(
        self, dag_id: str, run_id: str, task_id: str, map_index: int = -1
    ) -> ScriptTaskStore:
        """The store of a task instance. A first write registers its run as external."""
        scope = TaskScope(dag_id, run_id, task_id, map_index)
        return ScriptTaskStore(self.store, scope, whoami(), self._rules)

    def asset_store(
        self, *, name: str | None = None, uri: str | None = None, declare: bool = False
    ) -> AssetStore:
        """The store of an asset that a DAG declares, or that `declare=True` once declared."""
        return _asset_store(self.store, name, uri, declare, whoami(), self._rules)

    def close(self) -> None:
        """Let go of the connections, and of the server for handles if there is one."""
        _close_beside(entries_of(self.store))
        self.store.close()

    async def aclose(self) -> None:
        """The same from an event loop, with the connections that it had of its own."""
        await asyncio.to_thread(_close_beside, entries_of(self.store))
        await self.store.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _asset_store(
    store: Store,
    name: str | None,
    uri: str | None,
    declare: bool,
    writer: Writer,
    rules: Rules,
) -> AssetStore:
    if (name is None) == (uri is None) and not declare:
        raise InvalidInput("an asset has a name and a URI", hint="give one of them: name= or uri=")
    scope = AssetScope(name=name, uri=uri)
    if declare:
        scope = store.execute(c.DeclareAsset(name, uri)).scope
    return AssetStore(store, scope, writer, rules)


class ScriptTaskStore(ExternalTaskStore):
    """The task store of a program that can also be an attempt, as tasks under a runner are."""

    def attempt(self) -> Attempt:
        """`with store.attempt() as attempt:` fences off earlier attempts of the same task
        instance, and gives stores whose staged writes take effect when the block ends well."""
        return Attempt(self._store, self._scope, self._rules)


class Attempt:
    """One attempt of a task instance, from entering the block to leaving it."""

    def __init__(self, store: Store, scope: TaskScope, rules: Rules) -> None:
        self._store = store
        self._scope = scope
        self._rules = rules
        self._writer = TaskWriter(scope)

    @property
    def number(self) -> int:
        """Which attempt this is; the first is 1."""
        if self._writer.attempt is None:
            raise InvalidInput("the attempt has not begun", hint="use it in a `with` statement")
        return self._writer.attempt

    @property
    def task_store(self) -> TaskStore:
        """The task store, for as long as this is the newest attempt."""
        return TaskStore(self._store, self._scope, self._begun(), self._rules)

    def asset_store(
        self, *, name: str | None = None, uri: str | None = None, declare: bool = False
    ) -> AssetStore:
        """The store of an asset, with `on_success=True` for writes that wait for the end."""
        return _asset_store(self._store, name, uri, declare, self._begun(), self._rules)

    def _begun(self) -> TaskWriter:
        return TaskWriter(self._scope, self.number)

    def __enter__(self) -> Self:
        self._writer = run(self._store, self._start())
        return self

    async def __aenter__(self) -> Self:
        self._writer = await arun(self._store, self._start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        run(self._store, self._finish(error))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await arun(self._store, self._finish(error))

    def _start(self) -> Steps[TaskWriter]:
        try:
            number = yield c.StartAttempt(self._scope)
        except UnknownTaskInstance:
            yield c.RegisterTask(self._scope)
            number = yield c.StartAttempt(self._scope)
        return TaskWriter(self._scope, number)

    def _finish(self, failure: BaseException | None) -> Steps[None]:
        if failure is None:
            yield from self._succeed()
            return
        try:
            yield c.FinishAttempt(self._writer, succeeded=False)
        except HoldfastError as error:
            # What went wrong in the block matters more than that its end could not be recorded.
            failure.add_note(f"the attempt's end was not recorded: {error.message}")

    def _succeed(self) -> Steps[None]:
        try:
            yield c.FinishAttempt(self._writer, True, self._rules.clear_on_success)
        except (StaleAttempt, StoreUnavailable):
            raise
        except HoldfastError as error:
            # The success did not stand, so the attempt has failed; the caller learns why.
            yield from self._finish(error)
            raise
