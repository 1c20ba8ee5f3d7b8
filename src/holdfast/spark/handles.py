"""Access for other processes: handles to a program's stores, and endpoints for its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.access.identity import Assets, HandleIdentity, JobIdentity, TaskIdentity, Wanted
from holdfast.model.entry import ApiWriter, TaskWriter, Writer
from holdfast.model.scope import AssetScope
from holdfast.portable.handle import AssetHandle, TaskHandle
from holdfast.portable.transport import Endpoint
from holdfast.server.endpoint import endpoints
from holdfast.spark.code_shipping import ship
from holdfast.store import Store
from holdfast.stores.pipe import PipeStore
from holdfast.wire.purpose import JobName

if TYPE_CHECKING:
    from holdfast.accessor.asset_store import AssetStore
    from holdfast.accessor.binding import Rules
    from holdfast.accessor.task_store import TaskStore


def task_handle(task_store: TaskStore) -> TaskHandle:
    """Return a handle to the store of the task instance. Within an attempt, it is valid as long as
    the attempt runs."""
    store, scope, writer, rules = task_store.binding
    wanted: Wanted = HandleIdentity(scope, _user(writer))
    if isinstance(writer, TaskWriter) and writer.attempt is not None:
        wanted = TaskIdentity(scope, writer.attempt)
    ship()
    return TaskHandle(
        _endpoint(store, wanted),
        _json(scope),
        _json(writer),
        rules.default_retention,
        _offloading(rules),
    )


def asset_handle(asset_store: AssetStore) -> AssetHandle:
    """Return a handle to the store of the asset. Within an attempt, it is valid as long as the
    attempt runs."""
    store, scope, writer, rules = asset_store.binding
    if scope.asset_id is not None:
        scope = AssetScope(name=scope.name, uri=scope.uri)
    wanted: Wanted = HandleIdentity(scope, _user(writer))
    if isinstance(writer, TaskWriter) and writer.attempt is not None:
        wanted = TaskIdentity(writer.scope, writer.attempt, ((scope.name, scope.uri),))
    ship()
    return AssetHandle(_endpoint(store, wanted), _json(scope), _json(writer), _offloading(rules))


def job_endpoint(task_store: TaskStore, key: str, intent: str, assets: Assets = ()) -> Endpoint:
    """Return the endpoint by which a job of the task reaches the task's stores, as long as `key` of
    the task store holds the intent. Raise StaleAttempt if it does not.

    In a task, the job can use the assets that the task declares; elsewhere, those that are given.
    """
    store, scope, *_ = task_store.binding
    if isinstance(store, PipeStore):
        return store.endpoint(JobName(key, intent))
    return endpoints(store).open(JobIdentity(scope, key, intent, assets))


def _endpoint(store: Store, wanted: Wanted) -> Endpoint:
    if isinstance(store, PipeStore):
        return store.endpoint()
    return endpoints(store).open(wanted)


def _offloading(rules: Rules) -> str:
    its = rules.offloading
    return msgspec.json.encode(its).decode() if its.backend else ""


def _user(writer: Writer) -> str:
    return writer.user if isinstance(writer, ApiWriter) else ""


def _json(value: Any) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(value)
    return built
