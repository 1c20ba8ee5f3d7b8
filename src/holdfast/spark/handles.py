"""What a program gives to processes elsewhere: handles of its stores, endpoints for its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.access.identity import Assets, HandleIdentity, JobIdentity, TaskIdentity, Wanted
from holdfast.model.entry import ApiWriter, TaskWriter, Writer
from holdfast.model.scope import AssetScope
from holdfast.portable.handle import AssetHandle, TaskHandle
from holdfast.portable.transport import Endpoint
from holdfast.server.endpoint import endpoints
from holdfast.spark.shipping import ship
from holdfast.store import Store
from holdfast.stores.pipe import PipeStore
from holdfast.wire.purpose import JobName

if TYPE_CHECKING:
    from holdfast.accessor.stores import Accessor, AssetStore, TaskStore


def task_handle(task_store: TaskStore) -> TaskHandle:
    """A handle of the task instance, for as long as the attempt lives if it is one."""
    store, scope, writer = task_store._store.inline, task_store._scope, task_store._writer
    wanted: Wanted = HandleIdentity(scope, _user(writer))
    if isinstance(writer, TaskWriter) and writer.attempt is not None:
        wanted = TaskIdentity(scope, writer.attempt)
    ship()
    return TaskHandle(
        _endpoint(store, wanted),
        _json(scope),
        _json(writer),
        task_store._rules.default_retention,
        _offloading(task_store),
    )


def asset_handle(asset_store: AssetStore) -> AssetHandle:
    """A handle of the asset, for as long as the attempt lives if it is one's."""
    store, writer = asset_store._store.inline, asset_store._writer
    scope = asset_store._scope
    if scope.asset_id is not None:
        scope = AssetScope(name=scope.name, uri=scope.uri)
    wanted: Wanted = HandleIdentity(scope, _user(writer))
    if isinstance(writer, TaskWriter) and writer.attempt is not None:
        wanted = TaskIdentity(writer.scope, writer.attempt, ((scope.name, scope.uri),))
    ship()
    return AssetHandle(
        _endpoint(store, wanted), _json(scope), _json(writer), _offloading(asset_store)
    )


def job_endpoint(task_store: TaskStore, key: str, intent: str, assets: Assets = ()) -> Endpoint:
    """Where a job of the task reaches the task's stores while `key` of the task store holds the
    intent; StaleAttempt where it does not.

    In a task, the job has the assets that the task declares; elsewhere, those that are given.
    """
    store = task_store._store.inline
    if isinstance(store, PipeStore):
        return store.endpoint(JobName(key, intent))
    return endpoints(store).open(JobIdentity(task_store._scope, key, intent, assets))


def _endpoint(store: Store, wanted: Wanted) -> Endpoint:
    if isinstance(store, PipeStore):
        return store.endpoint()
    return endpoints(store).open(wanted)


def _offloading(accessor: Accessor) -> str:
    its = accessor._rules.offloading
    return msgspec.json.encode(its).decode() if its.backend else ""


def _user(writer: Writer) -> str:
    return writer.user if isinstance(writer, ApiWriter) else ""


def _json(value: Any) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(value)
    return built
