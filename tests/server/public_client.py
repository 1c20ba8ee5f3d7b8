"""Client of the public API under /api/v2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from talk import ADMIN, Answer, ask

from holdfast.access.identity import Identity
from holdfast.connection import open_store
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import load
from holdfast.store import Store

STATE = "/dags/etl/dagRuns/r1/taskInstances/extract/state-store"


class Api:
    """Public API, as a client with one token."""

    def __init__(self, server: EmbeddedServer, store: Store, identity: Identity = ADMIN) -> None:
        self.server = server
        self.store = store
        self.token = server.tokens.issue(identity)

    def of(self, identity: Identity) -> Api:
        return Api(self.server, self.store, identity)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
        **query: Any,
    ) -> Answer:
        """Send a request. The path is sent verbatim, as is a body of bytes; an empty token is
        omitted."""
        asked = f"?{urlencode(query, doseq=True)}" if query else ""
        headers = {} if token == "" else {"Authorization": f"Bearer {token or self.token}"}
        if body is not None:
            headers["Content-Type"] = content_type
            body = body if isinstance(body, bytes) else msgspec.json.encode(body)
        address = self.server.url.removeprefix("http://")
        connection = HTTPConnection(address, timeout=20)
        return ask(connection, method, f"/api/v2{path}{asked}", body, headers)

    def get(self, path: str, **query: Any) -> Any:
        answer = self.ask("GET", path, **query)
        assert answer.status == 200, answer
        return answer.json

    def put(self, path: str, value: Any, **query: Any) -> Any:
        answer = self.ask("PUT", path, {"value": value}, **query)
        assert answer.status == 200, answer
        return answer.json


def state_of(dag_id: str, run_id: str, task_id: str, key: str | None = None) -> str:
    """Return the path of a task instance's state, percent-encoded."""
    ids = [quote(one, safe="") for one in (dag_id, run_id, task_id)]
    path = f"/dags/{ids[0]}/dagRuns/{ids[1]}/taskInstances/{ids[2]}/state-store"
    return path if key is None else f"{path}/{quote(key, safe='')}"


@contextmanager
def serving(database_url: str, home: Path, **state_store: str) -> Iterator[Api]:
    """Yield the API for an admin. `state_store` are settings of that section."""
    section = {f"HOLDFAST__STATE_STORE__{name.upper()}": text for name, text in state_store.items()}
    environ = {"HOLDFAST__DATABASE__URL": database_url, "HOLDFAST__API__ACCESS_LOG": "false"}
    settings = load(home, environ | section)
    with open_store(settings) as store:
        server = EmbeddedServer(store, settings)
        try:
            yield Api(server, store)
        finally:
            server.close()
