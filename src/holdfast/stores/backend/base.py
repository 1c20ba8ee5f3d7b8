"""Contract of custom backends, and the loader of the configured one."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.commands import Command
from holdfast.errors import InvalidBackend, NotSupported
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import JsonValue, decode, encode

if TYPE_CHECKING:
    from holdfast.store import Store
    from holdfast.stores.sql import SqlStore

A = TypeVar("A")

inside_backend: ContextVar[bool] = ContextVar("inside_backend", default=False)
"""Set while a custom backend is called; the database holds the lock of its scope meanwhile."""


class BaseStoreBackend(ABC):
    """Base class of backends that store values outside the product's database.

    On the server side the eight methods are called; implementing `get`, `set`, `delete` and `clear`
    is enough, since the async ones run these in a thread by default. Values are JSON text, to be
    returned verbatim. A scope is a `TaskScope`, or an `AssetScope` with `asset_id` (server side) or
    name or URI (worker side). `session` is a SQLAlchemy session that the caller holds; it is of use
    only to a backend in that database.

    A backend that supports further commands declares them in `supports` and executes them in
    `execute`.

    On the worker side the hooks `serialize_…` and `deserialize_…` write a value to the worker's own
    storage and read it back; only the reference is sent to the server.
    """

    @abstractmethod
    def get(self, scope: StoreScope, key: str, *, session: Any = None) -> str | None:
        """Return the value, or None if it is absent or has expired."""

    @abstractmethod
    def set(
        self,
        scope: StoreScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        session: Any = None,
    ) -> None:
        """Write or overwrite the value. It never expires if `expires_at` is None."""

    @abstractmethod
    def delete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        """Delete one key; do nothing if it is absent."""

    @abstractmethod
    def clear(
        self, scope: StoreScope, *, all_map_indices: bool = False, session: Any = None
    ) -> None:
        """Delete every key of the scope, or of all map indices of its task in its run."""

    async def aget(self, scope: StoreScope, key: str, *, session: Any = None) -> str | None:
        return await asyncio.to_thread(self.get, scope, key, session=session)

    async def aset(
        self,
        scope: StoreScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        session: Any = None,
    ) -> None:
        await asyncio.to_thread(self.set, scope, key, value, expires_at=expires_at, session=session)

    async def adelete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        await asyncio.to_thread(self.delete, scope, key, session=session)

    async def aclear(
        self, scope: StoreScope, *, all_map_indices: bool = False, session: Any = None
    ) -> None:
        await asyncio.to_thread(self.clear, scope, all_map_indices=all_map_indices, session=session)

    def cleanup(self) -> None:  # noqa: B027  (optional, and recognised by being overridden)
        """Delete expired entries. `holdfast state-store cleanup-task-store` calls this."""

    def supports(self, command: type[Command[Any]]) -> bool:
        """Return whether this backend executes a command of `holdfast.commands`, besides the eight
        methods: any of GetEntry, List, SetMany, Advance, History, Rewind, CountExpired,
        ListExpired, DeleteExpired, TakeExpired. A backend that supports GetEntry keeps versions,
        and receives every Set as a command, which may carry `if_version`."""
        return False

    def execute(self, command: Command[A]) -> A:
        """Execute a command that `supports` accepts. Its scope exists, and fencing is done."""
        raise NotSupported(f"{type(self).__name__} does not support {type(command).__name__}")

    def open(self, ledger: SqlStore) -> Store:
        """Return the store that the product uses: the ledger, which has runs, assets, attempts and
        staged writes, in front of this backend, which has the entries."""
        from holdfast.stores.backend.adapter import BackendStore

        return BackendStore(self, ledger)

    def serialize_task_store_to_ref(self, *, value: JsonValue, key: str, ti_id: str) -> str:
        """Store a task's value; return a reference that depends on ti_id and key alone."""
        return encode(value)

    def deserialize_task_store_from_ref(self, stored: str) -> Any:
        """Return the value behind a reference."""
        return decode(stored)

    def serialize_asset_store_to_ref(self, *, value: JsonValue, key: str, asset_ref: str) -> str:
        """Store an asset's value; return its reference. `asset_ref` is its name if known."""
        return encode(value)

    def deserialize_asset_store_from_ref(self, stored: str) -> Any:
        """Return the value behind a reference."""
        return decode(stored)

    # The same hooks as spelled by Airflow 3.3 and by the drafts before it. A class overrides those
    # of one spelling; the defaults are for `super()`, and for hooks that the class leaves out.

    def serialize_task_state_store_to_ref(
        self, *, value: JsonValue, key: str, scope: TaskScope
    ) -> str:
        return encode(value)

    def deserialize_task_state_store_from_ref(self, stored: str) -> Any:
        return decode(stored)

    def serialize_asset_state_store_to_ref(
        self, *, value: JsonValue, key: str, scope: AssetScope
    ) -> str:
        return encode(value)

    def deserialize_asset_state_store_from_ref(self, stored: str) -> Any:
        return decode(stored)

    def serialize_task_state_to_ref(self, value: str, key: str, ti_id: str) -> str:
        return value

    def deserialize_task_state_from_ref(self, stored: str) -> str:
        return stored

    def serialize_asset_state_to_ref(self, value: str, key: str, asset_ref: str) -> str:
        return value

    def deserialize_asset_state_from_ref(self, stored: str) -> str:
        return stored

    def serialize_task_state_value(self, value: str, key: str, ti_id: str) -> str:
        return value

    def deserialize_task_state_value(self, stored: str) -> str:
        return stored

    def purge_task_state(self, stored: str) -> None:  # noqa: B027  (recognised by being overridden)
        pass

    def serialize_asset_state_value(self, value: str, key: str, asset_name: str) -> str:
        return value

    def deserialize_asset_state_value(self, stored: str) -> str:
        return stored

    def purge_asset_state(self, stored: str) -> None:  # noqa: B027  (recognised if overridden)
        pass


def load_backend(
    path: str, settings: Mapping[type[BaseStoreBackend], Any] | None = None
) -> BaseStoreBackend:
    """Import and instantiate the backend at a dotted path; a subclass of a class in `settings` is
    given the settings of that class. Raise InvalidBackend if that fails."""
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidBackend(
            f"the backend `{path}` cannot be imported: {error}",
            hint="write it as package.module.Class, and check that the package is installed here",
        ) from None
    if not (isinstance(found, type) and issubclass(found, BaseStoreBackend)):
        raise InvalidBackend(
            f"the backend `{path}` is not a subclass of BaseStoreBackend",
            hint="from holdfast.sdk.state import BaseStoreBackend",
        )
    ours = [given for kind, given in (settings or {}).items() if issubclass(found, kind)]
    try:
        return found(*ours)
    except TypeError as error:
        raise InvalidBackend(
            f"the backend `{path}` cannot be created without arguments: {error}",
            hint="implement get, set, delete and clear, and read settings from the environment",
        ) from None
