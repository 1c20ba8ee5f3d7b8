"""State for programs that Holdfast did not start: scripts, notebooks, other orchestrators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol, Self

import msgspec

from holdfast import commands as c
from holdfast import distribution
from holdfast.access.identity import whoami
from holdfast.accessor.asset_store import AssetStore
from holdfast.accessor.base import located
from holdfast.accessor.binding import Rules
from holdfast.accessor.task_store import ExternalTaskStore, TaskStore
from holdfast.errors import (
    HoldfastError,
    InvalidInput,
    InvalidType,
    StaleAttempt,
    StoreUnavailable,
    UnknownTaskInstance,
)
from holdfast.model.entry import AssetInfo, TaskWriter, Writer
from holdfast.model.run import AssetEvent, EmittedEvent, Ending, Outcome, TaskState
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import encode
from holdfast.portable.source.location import checked_token
from holdfast.settings import Settings, load
from holdfast.store import Steps, Store, arun, run
from holdfast.stores import refusals
from holdfast.stores.backend.base import load_backend
from holdfast.stores.offload.configuration import Offloading
from holdfast.stores.offload.reference_store import entries_of
from holdfast.stores.sql import SqlStore


def open_store(
    settings: Settings,
    *,
    retry_window: timedelta = timedelta(0),
    answer_timeout: timedelta | None = None,
) -> Store:
    """Open the configured store: Holdfast's database, and behind it the configured backend."""
    ledger = SqlStore(
        settings.database_url,
        history_limit=settings.state_store.asset_history_limit,
        retry_window=retry_window,
        answer_timeout=answer_timeout,
        max_connections=settings.database.max_connections,
    )
    return load_backend(settings.state_store.backend).open(ledger)


def open_configured(
    settings: Settings, *, token: str | None = None, retry_window: timedelta = timedelta(0)
) -> Store:
    """Open the configured store, or the server in its place, with the token or that of the
    environment. Raise NoToken where there is none."""
    if not settings.server_url:
        return open_store(settings, retry_window=retry_window)
    # Imported lazily: with TLS it takes a while.
    from holdfast.stores.http import HttpStore

    return HttpStore(settings.server_url, checked_token(token), retry_window=retry_window)


def connect(url: str | None = None, *, token: str | None = None) -> Connection:
    """Open the configured store, or the one at a database's or server's URL.

    A server's URL begins with `http://` or `https://`. A server requires a token, from the argument
    or from the environment variable HOLDFAST_TOKEN. Raise NoToken if there is none, and
    InvalidInput for a token without the URL of a server.
    """
    distribution.check()
    settings = load()
    if url is not None:
        database = msgspec.structs.replace(settings.database, url=url)
        settings = msgspec.structs.replace(settings, database=database)
    if token is not None and not settings.server_url:
        raise InvalidInput(
            "a token is given without the URL of a server",
            hint='pass both: connect("http://…", token=…)',
        )
    store = open_configured(settings, token=token, retry_window=settings.core.retry_window)
    # Like a worker, it offloads values to a worker-side backend.
    its = rules(settings)
    return Connection(its.offloading.over(store), its)


def rules(settings: Settings) -> Rules:
    """Return the rules for values and their lifetime from the settings."""
    section = settings.state_store
    return Rules(
        default_retention=timedelta(days=section.default_retention_days),
        max_value_bytes=section.max_value_storage_bytes,
        clear_on_success=section.clear_on_success,
        offloading=Offloading.of(settings),
    )


_CLOSERS: dict[Store, list[Callable[[], None]]] = {}
"""By store, the functions that close what its users opened along with it."""


def before_close(store: Store, close: Callable[[], None]) -> None:
    """Register `close`, to be called before a connection closes the store."""
    _CLOSERS.setdefault(store, []).append(close)


def _call_closers(store: Store) -> None:
    for close in _CLOSERS.pop(store, ()):
        close()


class Connection:
    """Access to task and asset stores for the user who runs this program."""

    def __init__(self, store: Store, rules: Rules | None = None) -> None:
        self.store = store
        self._rules = rules or Rules()

    def task_store(
        self, dag_id: str, run_id: str, task_id: str, map_index: int = -1
    ) -> ScriptTaskStore:
        """Return the store of a task instance. The first write registers its run as external."""
        scope = TaskScope(dag_id, run_id, task_id, map_index)
        return ScriptTaskStore(self.store, scope, whoami(), self._rules)

    def asset_store(
        self, *, name: str | None = None, uri: str | None = None, declare: bool = False
    ) -> AssetStore:
        """Return the store of an asset, which a DAG or a call with `declare=True` has declared."""
        return _asset_store(self.store, name, uri, declare, whoami(), self._rules)

    def asset_event(
        self,
        *,
        name: str | None = None,
        uri: str | None = None,
        extra: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> AssetEvent:
        """Add an event to an asset, which starts the DAGs that are scheduled on it; return it.

        With a `key` that an event of the asset has, return that event, and add none. Raise
        UnknownAsset if no such asset is declared, and AssetInactive if none declares it any more.
        """
        return self.store.execute(_asset_event(name, uri, extra, key))

    async def aasset_event(
        self,
        *,
        name: str | None = None,
        uri: str | None = None,
        extra: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> AssetEvent:
        """Async variant of `asset_event`."""
        return await self.store.aexecute(_asset_event(name, uri, extra, key))

    def close(self) -> None:
        """Close the connections, and the server for handles if there is one."""
        _call_closers(entries_of(self.store))
        self.store.close()

    async def aclose(self) -> None:
        """Async variant of `close`, which also closes the connections of the event loop."""
        await asyncio.to_thread(_call_closers, entries_of(self.store))
        await self.store.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _asset_store(
    store: Store,
    name: str | None,
    uri: str | None,
    declare: bool,
    writer: Writer,
    rules: Rules,
) -> AssetStore:
    scope = AssetScope(name=name, uri=uri) if declare else _one_asset(name, uri)
    if declare:
        scope = store.execute(c.DeclareAsset(name, uri)).scope
    return AssetStore(store, scope, writer, rules)


def _one_asset(name: str | None, uri: str | None) -> AssetScope:
    if (name is None) == (uri is None):
        raise InvalidInput(
            "an asset is identified by its name or its URI", hint="give one of them: name= or uri="
        )
    return AssetScope(name=name, uri=uri)


def _asset_event(
    name: str | None, uri: str | None, extra: dict[str, Any] | None, key: str | None
) -> c.EmitAssetEvent:
    scope = _one_asset(name, uri)
    try:
        text = encode({} if extra is None else extra)
    except (InvalidInput, InvalidType) as error:
        raise located(error, f"extra of the event of {scope}") from None
    return c.EmitAssetEvent(scope=scope, writer=whoami(), extra=text, key=key)


class Outlet(Protocol):
    """An asset, such as `holdfast.sdk.Asset`."""

    @property
    def name(self) -> str | None: ...

    @property
    def uri(self) -> str | None: ...


class ScriptTaskStore(ExternalTaskStore):
    """The task store of a script, which can also run attempts, as a runner does for tasks."""

    def attempt(self, *, outlets: Sequence[str | Outlet] = ()) -> Attempt:
        """Return a context manager: `with store.attempt() as attempt:`.

        Entering it fences off earlier attempts of the task instance. The stores of `attempt` can
        stage writes, which take effect when the block ends without an exception. With that success
        each of the `outlets`, assets or names of assets, gets an event, unless it has one of an
        earlier success of the same task instance.
        """
        return Attempt(self._store, self._scope, self._rules, outlets)


class Attempt:
    """One attempt of a task instance, from entering the `with` block to leaving it."""

    def __init__(
        self, store: Store, scope: TaskScope, rules: Rules, outlets: Sequence[str | Outlet] = ()
    ) -> None:
        self._store = store
        self._scope = scope
        self._rules = rules
        self._writer = TaskWriter(scope)
        self._outlets = _outlet_scopes(outlets)
        self._events: tuple[EmittedEvent, ...] = ()

    @property
    def number(self) -> int:
        """The number of this attempt, from 1. Raise InvalidInput before the attempt has begun."""
        if self._writer.attempt is None:
            raise InvalidInput("the attempt has not started", hint="use it in a `with` statement")
        return self._writer.attempt

    @property
    def task_store(self) -> TaskStore:
        """The task store, which is usable while this is the newest attempt."""
        return TaskStore(self._store, self._scope, self._begun(), self._rules)

    def asset_store(
        self, *, name: str | None = None, uri: str | None = None, declare: bool = False
    ) -> AssetStore:
        """Return the store of an asset; its writes take `on_success=True` to be staged."""
        return _asset_store(self._store, name, uri, declare, self._begun(), self._rules)

    def _begun(self) -> TaskWriter:
        return TaskWriter(self._scope, self.number)

    def __enter__(self) -> Self:
        self._writer = run(self._store, self._start())
        return self

    async def __aenter__(self) -> Self:
        self._writer = await arun(self._store, self._start())
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        run(self._store, self._finish(error))

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await arun(self._store, self._finish(error))

    def _start(self) -> Steps[TaskWriter]:
        events = []
        for scope in self._outlets:
            asset: AssetInfo = yield c.GetAsset(scope)
            if asset.orphaned_at is not None:
                raise refusals.inactive(scope)
            # By the task instance: a retry after a success that the script did not see adds none.
            events.append(EmittedEvent(asset.name, asset.uri, key=self._scope.ti_text))
        self._events = tuple(dict.fromkeys(events))
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
            # The block's exception matters more than the failure to record the attempt's end.
            failure.add_note(f"the attempt's end was not recorded: {error.message}")

    def _succeed(self) -> Steps[None]:
        ending = None
        if self._events:
            ending = Ending(outcome=Outcome.SUCCESS, state=TaskState.SUCCESS, events=self._events)
        try:
            yield c.FinishAttempt(self._writer, True, self._rules.clear_on_success, ending)
        except (StaleAttempt, StoreUnavailable):
            raise
        except HoldfastError as error:
            # The success was refused, so the attempt has failed; the caller gets the reason.
            yield from self._finish(error)
            raise


def _outlet_scopes(outlets: Sequence[str | Outlet]) -> list[AssetScope]:
    """Return the assets. Raise InvalidType for anything that is neither a name nor an asset."""
    if isinstance(outlets, str):
        raise InvalidType(f"outlets is the text {outlets!r}", hint=f"pass a list: [{outlets!r}]")
    scopes = []
    for outlet in outlets:
        if isinstance(outlet, str):
            scopes.append(AssetScope(name=outlet))
            continue
        name, uri = getattr(outlet, "name", None), getattr(outlet, "uri", None)
        if name is None and uri is None:
            raise InvalidType(
                f"an outlet is {outlet!r}", hint="give the name of an asset, or an Asset"
            )
        scopes.append(AssetScope(name=name, uri=uri))
    return scopes
