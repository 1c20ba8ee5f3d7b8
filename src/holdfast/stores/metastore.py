"""The default backend: both stores in the product's own database."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdfast import command as c
from holdfast.backend import BaseStoreBackend
from holdfast.entry import TaskWriter, Writer
from holdfast.scope import StoreScope, TaskScope
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.stores.sql import SqlStore

A = TypeVar("A")


class MetastoreStateBackend(BaseStoreBackend):
    """Keeps entries in SQL. With `session`, inside the transaction that the caller holds."""

    def open(self, ledger: SqlStore) -> Store:
        return ledger

    @cached_property
    def _store(self) -> Store:
        from holdfast.connection import open_store
        from holdfast.settings import load

        return open_store(load())

    def get(self, scope: StoreScope, key: str, *, session: Any = None) -> str | None:
        return self._do(c.Get(scope, key), session)

    def set(
        self,
        scope: StoreScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        session: Any = None,
    ) -> None:
        self._do(c.Set(scope, key, value, _writer(scope), expires_at), session)

    def delete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        self._do(c.Delete(scope, key, _writer(scope)), session)

    def clear(
        self, scope: StoreScope, *, all_map_indices: bool = False, session: Any = None
    ) -> None:
        self._do(c.Clear(scope, _writer(scope), all_map_indices), session)

    async def aget(self, scope: StoreScope, key: str, *, session: Any = None) -> str | None:
        return await self._ado(c.Get(scope, key), session)

    async def aset(
        self,
        scope: StoreScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        session: Any = None,
    ) -> None:
        await self._ado(c.Set(scope, key, value, _writer(scope), expires_at), session)

    async def adelete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        await self._ado(c.Delete(scope, key, _writer(scope)), session)

    async def aclear(
        self, scope: StoreScope, *, all_map_indices: bool = False, session: Any = None
    ) -> None:
        await self._ado(c.Clear(scope, _writer(scope), all_map_indices), session)

    def cleanup(self) -> None:
        from holdfast.cleanup.plan import CleanupPlan
        from holdfast.cleanup.run import delete

        for _ in delete(CleanupPlan.now(self._store)):
            pass

    def _do(self, command: c.Command[A], session: Any) -> A:
        if session is None:
            return self._store.execute(command)
        from holdfast.stores.sql.session import execute_in

        return execute_in(session, command)

    async def _ado(self, command: c.Command[A], session: Any) -> A:
        if session is None:
            return await self._store.aexecute(command)
        from holdfast.stores.sql.session import execute_in

        return cast(A, await session.run_sync(lambda inner: execute_in(inner, command)))


def _writer(scope: StoreScope) -> Writer:
    """A task's entry is written for the task; who writes an asset's, nobody has said."""
    if isinstance(scope, TaskScope):
        return TaskWriter(scope)
    from holdfast.connection import whoami

    return whoami()
