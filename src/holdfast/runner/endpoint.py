"""Where processes beside the task's own, such as Spark's executors, reach its stores."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from holdfast import run_command as r
from holdfast.authority import Assets, TaskIdentity
from holdfast.dagspec import AliasSpec, TaskSpec
from holdfast.entry import TaskWriter
from holdfast.runner.messages import Endpoint
from holdfast.settings import Settings
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.server.embedded import EmbeddedServer


class Endpoints:
    """The configured server, or one in this process as soon as a task asks for it."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._lock = Lock()
        self._server: EmbeddedServer | None = None

    def open(self, task: TaskSpec, writer: TaskWriter) -> Endpoint:
        """For the attempt alone, and for the assets that its task declares."""
        assert writer.attempt is not None
        identity = TaskIdentity(writer.scope, writer.attempt, declared(task, self._store))
        if self._settings.workers.server_url:
            from holdfast.stores.http import HttpStore

            assert isinstance(self._store, HttpStore)
            return Endpoint(self._settings.workers.server_url, self._store.token_for(identity))
        server = self._embedded()
        return Endpoint(server.url, server.tokens.issue(identity))

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def _embedded(self) -> EmbeddedServer:
        with self._lock:
            if self._server is None:
                from holdfast.server import packages

                packages.check()
                from holdfast.server.embedded import EmbeddedServer

                self._server = EmbeddedServer(self._store, self._settings)
            return self._server


def declared(task: TaskSpec, store: Store) -> Assets:
    """The concrete assets among a task's inlets and outlets."""
    found: dict[tuple[str | None, str | None], None] = {}
    for one in task.inlets:
        if isinstance(one, AliasSpec):
            known = store.execute(r.AliasAssets(one.name))
            found |= dict.fromkeys((asset.name, asset.uri) for asset in known)
    for one in (*task.inlets, *task.outlets):
        if not isinstance(one, AliasSpec):
            found[one.name, one.uri] = None
    return tuple(found)
