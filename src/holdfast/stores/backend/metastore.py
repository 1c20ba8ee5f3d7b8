"""Default backend: both stores in the product's own database."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdfast import commands as c
from holdfast.access.identity import whoami
from holdfast.cleanup.plan import CleanupPlan
from holdfast.errors import InvalidBackend
from holdfast.model.entry import TaskWriter, Writer
from holdfast.model.scope import StoreScope, TaskScope
from holdfast.store import Store
from holdfast.stores.backend.base import BaseStoreBackend, inside_backend

if TYPE_CHECKING:
    from holdfast.stores.sql import SqlStore

A = TypeVar("A")


class MetastoreStateBackend(BaseStoreBackend):
    """Stores entries in SQL; with `session`, inside the transaction that the caller holds."""

    def __init_subclass__(cls) -> None:
        raise InvalidBackend(
            f"{cls.__name__} is derived from MetastoreStateBackend, whose methods are not called "
            "when Holdfast uses its own database",
            hint="derive from BaseStoreBackend",
        )

    def open(self, ledger: SqlStore) -> Store:
        return ledger

    @cached_property
    def _store(self) -> Store:
        from holdfast.settings import load
        from holdfast.stores.sql import SqlStore

        settings = load()
        return SqlStore(
            settings.database_url,
            history_limit=settings.state_store.asset_history_limit,
            retry_window=settings.core.retry_window,
            max_connections=settings.database.max_connections,
        )

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
        from holdfast.settings import load

        batch_size = load().state_store.state_cleanup_batch_size
        for _ in CleanupPlan.now(self._store).delete(batch_size):
            pass

    def _do(self, command: c.Command[A], session: Any) -> A:
        _check_not_inside_backend()
        if session is None:
            return self._store.execute(command)
        return self._in_session(session, command)

    async def _ado(self, command: c.Command[A], session: Any) -> A:
        _check_not_inside_backend()
        if session is None:
            return await self._store.aexecute(command)
        return cast(A, await session.run_sync(self._in_session, command))

    def _in_session(self, session: Any, command: c.Command[A]) -> A:
        from holdfast.settings import load
        from holdfast.stores.sql.session import execute_in

        return execute_in(session, command, load().state_store.asset_history_limit)


def _check_not_inside_backend() -> None:
    if inside_backend.get():
        raise InvalidBackend(
            "a custom backend cannot store its entries in MetastoreStateBackend: it would wait "
            "for a lock that is already held",
            hint="use MetastoreStateBackend as the backend, or store the entries elsewhere",
        )


def _writer(scope: StoreScope) -> Writer:
    """Return the task itself as writer of its entries; for an asset, the current user."""
    if isinstance(scope, TaskScope):
        return TaskWriter(scope)
    return whoami()
