"""REST catalog of Iceberg tables over HTTP, which keeps them in a SQLite database."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

from pyiceberg import exceptions
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table

_STATUS = {
    exceptions.NoSuchTableError: 404,
    exceptions.NoSuchNamespaceError: 404,
    exceptions.TableAlreadyExistsError: 409,
    exceptions.CommitFailedException: 409,
}
_TABLE = re.compile(r"/v1/namespaces/([^/]+)/tables(?:/([^/]+))?")


class RestCatalogServer(ThreadingHTTPServer):
    """Server of a catalog. Requests of a commit are handled one at a time."""

    daemon_threads = True

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.catalog = catalog
        self.commits: list[int] = []
        """The status of each commit."""
        self.failures: list[int] = []
        """The status with which the next commits are answered, although they take effect."""
        self.refusal = 0
        """The status with which all requests are refused, if there is one."""
        self.delays: list[float] = []
        """The seconds after which the next commits are answered."""
        self.lock = Lock()
        self.connections: list[socket.socket] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RestCatalogServer

    def setup(self) -> None:
        super().setup()
        self.server.connections.append(self.connection)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        self._answered(self._get)

    def do_GET(self) -> None:
        self._answered(self._get)

    def do_POST(self) -> None:
        self._answered(self._post)

    def _get(self, body: bytes) -> tuple[int, Any]:
        catalog = self.server.catalog
        if self.path.startswith("/v1/config"):
            return 200, {"defaults": {}, "overrides": {}}
        if found := _TABLE.fullmatch(self.path.partition("?")[0]):
            return 200, _described(catalog.load_table((found[1], found[2])))
        return 200, {"namespaces": catalog.list_namespaces()}

    def _post(self, body: bytes) -> tuple[int, Any]:
        catalog = self.server.catalog
        found = _TABLE.fullmatch(self.path)
        assert found is not None
        with self.server.lock:
            if found[2] is None:
                asked = CreateTableRequest.model_validate({"location": None, **json.loads(body)})
                spec = asked.partition_spec or UNPARTITIONED_PARTITION_SPEC
                identifier = (found[1], asked.name)
                return 200, _described(
                    catalog.create_table(identifier, asked.table_schema, partition_spec=spec)
                )
            commit = CommitTableRequest.model_validate_json(body)
            table = catalog.load_table((found[1], found[2]))
            try:
                done = catalog.commit_table(table, commit.requirements, commit.updates)
            except exceptions.CommitFailedException:
                self.server.commits.append(409)
                raise
            self.server.commits.append(200)
            time.sleep(self.server.delays.pop(0) if self.server.delays else 0)
            status = self.server.failures.pop(0) if self.server.failures else 200
            return status, json.loads(done.model_dump_json())

    def _answered(self, handle: Any) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            status = self.server.refusal
            answer: Any = {"error": {"message": "refused", "type": "Refused", "code": status}}
            if not status:
                status, answer = handle(body)
        except tuple(_STATUS) as error:
            status = _STATUS[type(error)]
            kind = type(error).__name__
            answer = {"error": {"message": str(error), "type": kind, "code": status}}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _described(table: Table) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


@contextmanager
def rest_catalog(catalog: Catalog) -> Iterator[RestCatalogServer]:
    with RestCatalogServer(catalog) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
        for connection in server.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
