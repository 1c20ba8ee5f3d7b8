"""The task store: the state of one task instance."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from holdfast import commands as c
from holdfast.accessor.base import Accessor, check_version, located
from holdfast.errors import InvalidInput, InvalidType, UnknownTaskInstance
from holdfast.model.scope import TaskScope
from holdfast.model.value import JsonValue
from holdfast.portable.retention import expires_at
from holdfast.store import Steps, arun, run

if TYPE_CHECKING:
    from holdfast.portable.handle import TaskHandle

A = TypeVar("A")


class TaskStore(Accessor[TaskScope]):
    """The store of one task instance. It survives crashes and retries; entries expire."""

    def set(
        self,
        key: str,
        value: JsonValue,
        *,
        retention: timedelta | None = None,
        if_version: int | None = None,
    ) -> None:
        """Write or overwrite a key. Once this returns, the write survives any crash."""
        run(self._store, self._set(key, value, retention, if_version))

    async def aset(
        self,
        key: str,
        value: JsonValue,
        *,
        retention: timedelta | None = None,
        if_version: int | None = None,
    ) -> None:
        await arun(self._store, self._set(key, value, retention, if_version))

    def set_many(
        self, values: Mapping[str, JsonValue], *, retention: timedelta | None = None
    ) -> None:
        """Write all of the values, or none."""
        run(self._store, self._set_many(values, retention))

    async def aset_many(
        self, values: Mapping[str, JsonValue], *, retention: timedelta | None = None
    ) -> None:
        await arun(self._store, self._set_many(values, retention))

    def clear(self, all_map_indices: bool = False) -> None:
        """Delete every key of this task instance, or of all its map indices in this run."""
        run(self._store, self._write(self._clear(all_map_indices)))

    async def aclear(self, all_map_indices: bool = False) -> None:
        await arun(self._store, self._write(self._clear(all_map_indices)))

    def handle(self) -> TaskHandle:
        """Return a handle of this store for Spark's executors, to be used inside functions that
        Spark calls there. It is good for as long as the attempt lives."""
        from holdfast.spark.handles import task_handle

        return task_handle(self)

    def _set(
        self, key: str, value: JsonValue, retention: timedelta | None, if_version: int | None
    ) -> Steps[int]:
        check_version(if_version)
        text = self._encode(key, value)
        expiry = self._expiry(retention)
        return self._write(c.Set(self._scope, key, text, self._writer, expiry, if_version))

    def _set_many(self, values: Mapping[str, JsonValue], retention: timedelta | None) -> Steps[int]:
        texts = self._encode_all(values)
        return self._write(c.SetMany(self._scope, texts, self._writer, self._expiry(retention)))

    def _clear(self, all_map_indices: bool) -> c.Clear:
        return c.Clear(self._scope, self._writer, all_map_indices)

    def _expiry(self, retention: timedelta | None) -> datetime | None:
        try:
            return expires_at(retention, self._rules.default_retention, datetime.now(UTC))
        except (InvalidInput, InvalidType) as error:
            raise located(error, str(self._scope)) from None


class ExternalTaskStore(TaskStore):
    """The task store of a program that Holdfast did not start. A first write registers its run."""

    def _write(self, command: c.Command[A]) -> Steps[A]:
        try:
            answer: A = yield command
        except UnknownTaskInstance:
            if not isinstance(command, c.Set | c.SetMany):
                raise  # a mistyped name must not become a task instance by being cleared
            yield c.RegisterTask(self._scope)
            answer = yield command
        return answer

    def handle(self) -> TaskHandle:
        """Return a handle as that of a task. It registers the run, too, and is good for as long as
        the connection is open, a week at most."""
        self._store.execute(c.RegisterTask(self._scope))
        return super().handle()
