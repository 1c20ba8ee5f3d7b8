"""Server in this process, and a client that sends requests of the test."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast import commands as c
from holdfast.access.identity import Identity, TaskIdentity, UserIdentity
from holdfast.model.entry import ApiWriter
from holdfast.model.role import Role
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import Settings
from holdfast.store import Store

JSON = {"Content-Type": "application/json"}
ORDERS = ("orders", "s3://lake/orders")


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def reason(self) -> str:
        """Return the reason of an error, which has the common schema."""
        assert self.headers["content-type"] == "application/json", self
        assert set(self.json) == {"detail"}, self
        detail = self.json["detail"]
        assert set(detail) <= {"reason", "message", "hint"}, self
        assert detail["message"], self
        assert "Traceback" not in detail["message"], self
        assert isinstance(detail["reason"], str)
        return str(detail["reason"])


class Served:
    """Server over a store with one asset, and attempts of task instances."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.server = EmbeddedServer(store, settings)
        self.address = self.server.url.removeprefix("http://")
        store.execute(c.DeclareAsset(*ORDERS))

    def new_attempt(self, task_id: str) -> TaskIdentity:
        """Return the next attempt of a task instance, which may use the asset."""
        scope = TaskScope("sales", "r1", task_id)
        self.store.execute(c.RegisterTask(scope))
        return TaskIdentity(scope, self.store.execute(c.StartAttempt(scope)), (ORDERS,))

    def token(self, identity: Identity) -> str:
        return self.server.tokens.issue(identity)

    def entries(self, scope: TaskScope | AssetScope) -> dict[str, str]:
        """Return the entries of the store."""
        found = self.store.execute(c.List(scope)).found
        return {one.entry.key: one.entry.value for one in found}

    def put(self, scope: TaskScope | AssetScope, key: str, text: str) -> None:
        self.store.execute(c.Set(scope, key, text, ApiWriter("test")))

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | Identity | None = None,
        **headers: str,
    ) -> Answer:
        """Send a request over its own connection. A body that is not bytes is sent as JSON."""
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        if token is not None:
            text = token if isinstance(token, str) else self.token(token)
            sent["Authorization"] = f"Bearer {text}"
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        if body is not None:
            sent = JSON | sent
        return ask(http.client.HTTPConnection(self.address, timeout=20), method, path, body, sent)

    def send(self, data: bytes, timeout: float = 20) -> bytes:
        """Send raw bytes, and return what is received until the server closes the connection."""
        with self.connect(timeout) as connection:
            connection.sendall(data)
            return received(connection)

    def connect(self, timeout: float = 20) -> socket.socket:
        host, _, port = self.address.partition(":")
        return socket.create_connection((host, int(port)), timeout=timeout)

    def close(self) -> None:
        self.server.close()
        self.store.close()


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None,
    headers: Mapping[str, str],
) -> Answer:
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        answered = {name.lower(): text for name, text in response.getheaders()}
        return Answer(response.status, answered, response.read())
    finally:
        connection.close()


def received(connection: socket.socket) -> bytes:
    data = b""
    while part := connection.recv(65536):
        data += part
    return data


def answer_in(data: bytes) -> Answer:
    """Return the only response in raw bytes."""
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(status.split()[1]), fields, body)


ADMIN = UserIdentity("ann", Role.ADMIN)
